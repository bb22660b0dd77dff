// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/verdict.h"

#include "lib/base/byte_units.h"
#include "lib/base/format.h"
#include "lib/base/hostlist.h"
#include "lib/base/text.h"
#include "lib/evidence/log_verdict.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_causes = 3;
constexpr double bound_slack = 1.1; // drivers differ in whether they count the headers of split and merged packets
constexpr double idle_part = 0.01;  // of the median port's bytes; less is idle
constexpr double unbalanced_part = 0.5;

double part_of(std::uint64_t some, std::uint64_t others) {
    const double all = static_cast<double>(some) + static_cast<double>(others);
    return all > 0 ? static_cast<double>(some) / all : 1;
}

/// Returns RDMA's share in the worse direction. Ignores a direction with less than a tenth of the other's bytes
/// (acknowledgements, chatter).
double worst_share(const Bytes& rdma, const Bytes& sockets) {
    const auto tx = rdma.tx + sockets.tx;
    const auto rx = rdma.rx + sockets.rx;
    const auto counts = [](std::uint64_t own, std::uint64_t other) { return own >= other / 10; };
    const double sent = counts(tx, rx) ? part_of(rdma.tx, sockets.tx) : 1;
    const double received = counts(rx, tx) ? part_of(rdma.rx, sockets.rx) : 1;
    return std::min(sent, received);
}

Verdict judge_amounts(const Bytes& rdma, const Bytes& sockets, double share) {
    if (rdma.most() < enough_to_judge && sockets.most() < enough_to_judge) {
        return Verdict::Idle;
    }
    // Uses both directions: a node that sends over RDMA and receives over sockets has used it.
    if (rdma.most() < noise || part_of(rdma.tx + rdma.rx, sockets.tx + sockets.rx) < not_used_share) {
        return Verdict::NotUsed;
    }
    return share >= used_share && rdma.most() >= enough_to_judge ? Verdict::Used : Verdict::Mixed;
}

std::uint64_t median_of(std::vector<std::uint64_t> values) {
    if (values.empty()) {
        return 0;
    }
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Returns true if the node's bytes may include those of other steps.
bool is_shared(const NodeEvidence& node) {
    return !node.exclusive || !node.qps.others.empty();
}

Grade grade_of(const NodeEvidence& node) {
    const bool own = node.qps.known && node.qps.most_own > 0;
    if (!node.problem.empty() || !node.traffic.has_source || node.traffic.estimate || (is_shared(node) && !own)) {
        return Grade::D;
    }
    return is_shared(node) ? Grade::C : own ? Grade::A : Grade::B;
}

/// Judges how the ports that NCCL was told to use shared the work. Returns true if a port was idle that had to work:
/// each of at least as many GPUs as there are such ports has a rank, and most of these ports were used.
bool judge_balance(const NodeEvidence& node, NodeVerdict& verdict) {
    std::vector<std::uint64_t> moved;
    std::size_t expected = 0;
    for (const auto& port : node.traffic.ports) {
        if (port.expected && port.source != ByteSource::None) {
            ++expected;
            moved.push_back(port.bytes.most());
        }
    }
    std::erase_if(moved, [](std::uint64_t bytes) { return bytes < noise; });
    const auto median = static_cast<double>(median_of(moved));
    std::vector<std::string> idle;
    for (const auto& port : node.traffic.ports) {
        const auto bytes = static_cast<double>(port.bytes.most());
        if (!port.expected) {
            if (bytes >= static_cast<double>(enough_to_judge)) {
                verdict.notes.push_back(format_text("{} moved {} though NCCL was not told to use it", port.port,
                                                    bytes_text(port.bytes.most())));
            }
        } else if (port.source == ByteSource::None || port.bytes.at_least) {
            continue; // it may have moved more; its problem says so
        } else if (bytes < std::max(static_cast<double>(noise), idle_part * median)) {
            idle.push_back(port.port);
        } else if (bytes < unbalanced_part * median) {
            verdict.notes.push_back(
                format_text("{} moved {:.0f} % of the median of its ports: is a rank far from its HCA? "
                            "(rdma-nccl topo)",
                            port.port, 100 * bytes / median));
        }
    }
    const bool all_needed = node.rank_per_gpu && node.gpus >= expected && 2 * idle.size() < expected;
    if (!idle.empty()) {
        (all_needed ? verdict.why : verdict.notes).push_back(format_text("{} stayed idle", joined(idle)));
    }
    return all_needed && !idle.empty();
}

void add_causes(const NodeEvidence& node, Verdict verdict, std::vector<std::string>& why) {
    std::size_t count = 0;
    const auto add = [&](const std::vector<std::string>& causes) {
        for (const auto& cause : causes) {
            if (count < most_causes && std::ranges::find(why, cause) == why.end()) {
                why.push_back(cause);
                ++count;
            }
        }
    };
    if (node.log) {
        add(node.log->causes);
    }
    add(node.causes);
    if (why.empty() && !node.log && verdict == Verdict::NotUsed) {
        why.emplace_back("cause unknown: run with verify=full to find it in NCCL's logs");
    }
}

/// Returns whose bytes may be counted as the step's.
std::string others_of(const NodeEvidence& node) {
    return node.qps.others.empty() ? "another step" : joined(node.qps.others);
}

void note_others_sockets(NodeVerdict& verdict) {
    if (is_shared(verdict.evidence)) {
        verdict.notes.push_back(format_text("the bytes over sockets may be those of {}", others_of(verdict.evidence)));
    }
}

/// Judges without byte counters: by the ranks' logs, and by the absence of queue pairs.
void judge_without_bytes(NodeVerdict& verdict) {
    const auto& node = verdict.evidence;
    const bool no_queue_pairs = node.qps.known && node.qps.most_own == 0;
    if (node.log) {
        const auto judged = judge_log(*node.log);
        verdict.verdict = judged.verdict;
        verdict.why = judged.why;
        if (judged.verdict != Verdict::Unknown || !no_queue_pairs) {
            return;
        }
        verdict.why.clear();
    }
    const bool no_device = node.traffic.ports.empty() && !node.log;
    if (no_device || no_queue_pairs) {
        verdict.verdict = verdict.sockets.most() >= enough_to_judge ? Verdict::NotUsed : Verdict::Idle;
        if (verdict.verdict == Verdict::NotUsed && no_device) {
            verdict.why.emplace_back("there is no RDMA device");
        } else if (verdict.verdict == Verdict::NotUsed) {
            verdict.why.emplace_back("no process of the step ever had a queue pair when checked");
            note_others_sockets(verdict);
        }
        return;
    }
    verdict.verdict = Verdict::Unknown;
    std::set<std::string> problems;
    for (const auto& port : node.traffic.ports) {
        if (!port.problem.empty()) {
            problems.insert(port.problem);
        }
    }
    verdict.why.push_back(format_text("no port has byte counters{}{}", problems.empty() ? "" : ": ", joined(problems)));
}

bool is_kernel(const std::string& other) {
    return other.starts_with(kernel_owner);
}

/// Judges a node that others use too. If only the kernel has queue pairs, those of a short step may have existed
/// between two looks.
void judge_shared(NodeVerdict& verdict) {
    const auto& qps = verdict.evidence.qps;
    const std::string others = others_of(verdict.evidence);
    const bool kernel_alone = std::ranges::all_of(qps.others, is_kernel) && verdict.evidence.exclusive;
    if (qps.known && qps.most_own == 0 && !(kernel_alone && verdict.rdma.most() >= noise)) {
        if (verdict.rdma.most() >= noise) {
            verdict.notes.push_back(
                format_text("the RDMA traffic was not this step's, which had no queue pair ({})", others));
        }
        verdict.rdma = {};
        verdict.share = worst_share(verdict.rdma, verdict.sockets);
        verdict.verdict = judge_amounts(verdict.rdma, verdict.sockets, verdict.share);
        if (verdict.verdict == Verdict::NotUsed) {
            note_others_sockets(verdict);
        }
        return;
    }
    const bool clear = qps.known && verdict.verdict == Verdict::Used;
    if (verdict.verdict != Verdict::Idle && !clear) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.push_back(format_text("{} over RDMA and {} over sockets may include those of {} on the node",
                                          bytes_text(verdict.rdma.most()), bytes_text(verdict.sockets.most()), others));
    } else if (clear) {
        verdict.notes.push_back(format_text("the bytes may include those of {}", others));
    }
}

void judge_gpu_direct(NodeVerdict& verdict) {
    const auto& node = verdict.evidence;
    if (node.log && node.log->rdma + node.log->rdma_gdr > 0) {
        verdict.gpu_direct = node.log->rdma_gdr > 0 ? GpuDirect::On : GpuDirect::Off;
        if (node.log->rdma_gdr > 0 && node.log->rdma > 0) {
            verdict.notes.push_back(format_text("{} of {} connections over RDMA are without GPUDirect", node.log->rdma,
                                                node.log->rdma + node.log->rdma_gdr));
        }
    } else if (node.gpu_direct_possible) {
        verdict.gpu_direct = *node.gpu_direct_possible ? GpuDirect::Possible : GpuDirect::Off;
    }
}

/// Returns true if RDMA went both ways and the excess over sockets one way only: data sets that are read, or
/// checkpoints that are written. Collectives over sockets go both ways.
bool moves_files(const NodeVerdict& verdict) {
    const auto least = std::min(verdict.sockets.tx, verdict.sockets.rx);
    const Bytes both_ways{least, least, false};
    return std::min(verdict.rdma.tx, verdict.rdma.rx) >= enough_to_judge &&
           judge_amounts(verdict.rdma, both_ways, worst_share(verdict.rdma, both_ways)) == Verdict::Used;
}

void judge_bytes(NodeVerdict& verdict) {
    const auto& node = verdict.evidence;
    verdict.verdict = judge_amounts(verdict.rdma, verdict.sockets, verdict.share);
    if (is_shared(node)) {
        judge_shared(verdict);
    }
    const bool lost = std::ranges::any_of(node.traffic.ports, [](const auto& port) {
        return port.expected && (port.bytes.at_least || port.source == ByteSource::None);
    });
    if (verdict.verdict == Verdict::Mixed && moves_files(verdict)) {
        verdict.verdict = Verdict::Used;
        const auto least = std::min(verdict.sockets.tx, verdict.sockets.rx);
        verdict.notes.push_back(format_text("{} over sockets went one way, like file I/O, and do not count",
                                            bytes_text(verdict.sockets.most() - least)));
        verdict.elsewhere.tx += verdict.sockets.tx - least;
        verdict.elsewhere.rx += verdict.sockets.rx - least;
        verdict.sockets.tx = verdict.sockets.rx = least;
        verdict.share = worst_share(verdict.rdma, verdict.sockets);
    }
    if (lost && verdict.verdict == Verdict::NotUsed) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.emplace_back("the bytes of some ports could not be read");
    }
    if ((verdict.verdict == Verdict::Used || verdict.verdict == Verdict::Mixed) && judge_balance(node, verdict)) {
        verdict.verdict = Verdict::Mixed;
    }
    for (const auto& port : node.traffic.ports) {
        if (!port.problem.empty()) {
            verdict.notes.push_back(format_text("{}: {}", port.port, port.problem));
        }
    }
    for (const auto& netdev : node.traffic.netdevs) {
        if (!netdev.problem.empty()) {
            verdict.notes.push_back(format_text("{}: {}", netdev.netdev, netdev.problem));
        }
    }
}

/// `bounded`: the sums over all nodes limit the bytes to what can have been between the nodes of the step.
NodeVerdict judge(NodeEvidence evidence, const Bytes& rdma, const Bytes& sockets, bool bounded) {
    NodeVerdict verdict;
    verdict.node = evidence.node;
    verdict.rdma = rdma;
    verdict.sockets = sockets;
    const auto& seen = evidence.traffic.sockets;
    verdict.elsewhere = {seen.tx - std::min(seen.tx, sockets.tx), seen.rx - std::min(seen.rx, sockets.rx), false};
    verdict.share = worst_share(rdma, sockets);
    verdict.grade = grade_of(evidence);
    verdict.evidence = std::move(evidence);
    const auto& node = verdict.evidence;
    if (!node.problem.empty()) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.push_back(node.problem);
    } else if (!node.traffic.has_source) {
        judge_without_bytes(verdict);
    } else {
        judge_bytes(verdict);
    }
    const bool by_bytes = node.problem.empty() && (node.traffic.has_source || !node.log);
    if (!bounded && by_bytes && (verdict.verdict == Verdict::NotUsed || verdict.verdict == Verdict::Mixed)) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.push_back(
            format_text("whether its {} over sockets went to nodes of the step cannot be told without "
                        "all of their sums",
                        bytes_text(verdict.sockets.most())));
    }
    if (verdict.verdict == Verdict::NotUsed || verdict.verdict == Verdict::Mixed) {
        add_causes(node, verdict.verdict, verdict.why);
    }
    judge_gpu_direct(verdict);
    return verdict;
}

/// Limits one direction of a node to what the other nodes moved in the opposite one.
std::uint64_t bounded(std::uint64_t own, std::uint64_t others) {
    const double most = bound_slack * static_cast<double>(others);
    return static_cast<double>(own) <= most ? own : static_cast<std::uint64_t>(most);
}

/// Sums over all nodes: every byte between two nodes of a step is sent by one and received by another.
class Sums {
public:
    explicit Sums(std::span<const NodeEvidence> nodes, bool complete) : usable_(complete && nodes.size() > 1) {
        for (const auto& node : nodes) {
            add(rdma_, node.traffic.rdma);
            add(sockets_, node.traffic.sockets);
            sources_ = sources_ && node.traffic.has_source && node.problem.empty();
            usable_ = usable_ && node.problem.empty();
        }
    }
    [[nodiscard]] bool bounds_sockets() const { return usable_ && !sockets_.at_least; }
    [[nodiscard]] Bytes sockets_of(const NodeEvidence& node) const {
        return bounds_sockets() ? bound(node.traffic.sockets, sockets_) : node.traffic.sockets;
    }
    [[nodiscard]] Bytes rdma_of(const NodeEvidence& node) const {
        return usable_ && sources_ && !rdma_.at_least ? bound(node.traffic.rdma, rdma_) : node.traffic.rdma;
    }

private:
    static void add(Bytes& sum, const Bytes& one) {
        sum.tx += one.tx;
        sum.rx += one.rx;
        sum.at_least = sum.at_least || one.at_least;
    }
    static Bytes bound(const Bytes& own, const Bytes& sum) {
        return {bounded(own.tx, sum.rx - own.rx), bounded(own.rx, sum.tx - own.tx), own.at_least};
    }

    Bytes rdma_, sockets_;
    bool usable_;
    bool sources_ = true;
};

Verdict verdict_of_all(std::span<const NodeVerdict> nodes) {
    std::set<Verdict> seen;
    for (const auto& node : nodes) {
        if (node.verdict != Verdict::Idle) {
            seen.insert(node.verdict);
        }
    }
    if (seen.empty()) {
        return nodes.empty() ? Verdict::Unknown : Verdict::Idle;
    }
    if (seen.contains(Verdict::Mixed) || (seen.contains(Verdict::Used) && seen.contains(Verdict::NotUsed))) {
        return Verdict::Mixed;
    }
    return seen.contains(Verdict::Unknown) ? Verdict::Unknown : *seen.begin();
}

/// Returns each sentence once, with the names of its nodes unless all nodes have it.
std::vector<std::string> folded(std::span<const NodeVerdict> nodes, std::vector<std::string> NodeVerdict::*texts) {
    std::vector<std::pair<std::string, std::vector<std::string>>> sentences; // in order of appearance
    std::map<std::string_view, std::size_t> places;
    for (const auto& node : nodes) {
        for (const auto& text : node.*texts) {
            const auto [found, is_new] = places.emplace(text, sentences.size());
            if (is_new) {
                sentences.push_back({text, {}});
            }
            sentences[found->second].second.push_back(node.node);
        }
    }
    std::vector<std::string> result;
    result.reserve(sentences.size());
    for (const auto& [text, names] : sentences) {
        result.push_back(names.size() == nodes.size() ? text : format_text("{}: {}", fold_hostlist(names), text));
    }
    return result;
}

/// Returns the nodes on which a MIXED step did not use RDMA.
std::vector<std::string> nodes_without_rdma(const StepVerdict& step) {
    std::vector<std::string> names;
    for (const auto& node : step.nodes) {
        if (step.verdict != Verdict::NotUsed && node.verdict == Verdict::NotUsed) {
            names.push_back(node.node);
        }
    }
    return names;
}

GpuDirect least(GpuDirect a, GpuDirect b) {
    return std::max(a, b); // they are declared from On downwards
}

} // namespace

NodeVerdict judge_node(NodeEvidence evidence) {
    const Bytes rdma = evidence.traffic.rdma;
    const Bytes sockets = evidence.traffic.sockets;
    return judge(std::move(evidence), rdma, sockets, true);
}

StepVerdict judge_step(std::vector<NodeEvidence> nodes, std::vector<std::string> silent) {
    const Sums sums(nodes, silent.empty());
    const bool bounded = sums.bounds_sockets() || (nodes.size() == 1 && silent.empty());
    StepVerdict step;
    step.silent = std::move(silent);
    step.nodes.reserve(nodes.size());
    for (auto& node : nodes) {
        const Bytes rdma = sums.rdma_of(node);
        const Bytes sockets = sums.sockets_of(node);
        step.nodes.push_back(judge(std::move(node), rdma, sockets, bounded));
    }
    step.verdict = verdict_of_all(step.nodes);
    step.grade = Grade::A;
    std::optional<GpuDirect> gpu_direct;
    step.share = 1;
    for (const auto& node : step.nodes) {
        for (auto [sum, own] : {std::pair{&step.rdma, &node.rdma}, std::pair{&step.sockets, &node.sockets}}) {
            sum->tx += own->tx;
            sum->rx += own->rx;
            sum->at_least = sum->at_least || own->at_least;
        }
        step.grade = std::max(step.grade, node.grade);
        if (node.verdict != Verdict::Idle) {
            gpu_direct = least(gpu_direct.value_or(GpuDirect::On), node.gpu_direct);
            step.share = std::min(step.share, node.share);
        }
    }
    step.gpu_direct = gpu_direct.value_or(GpuDirect::Unknown);
    if (step.nodes.empty()) {
        step.grade = Grade::D;
        step.share = 0;
    }
    step.why = folded(step.nodes, &NodeVerdict::why);
    if (const auto without = nodes_without_rdma(step); !without.empty()) {
        step.why.insert(step.why.begin(), format_text("not used on {}", fold_hostlist(without)));
    }
    if (!step.silent.empty()) {
        step.why.push_back(format_text("no report from {}", fold_hostlist(step.silent)));
    }
    return step;
}

} // namespace rdma_nccl
