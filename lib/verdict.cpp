// SPDX-License-Identifier: Apache-2.0
#include "lib/verdict.h"

#include "lib/bytes_text.h"
#include "lib/format.h"
#include "lib/hostlist.h"
#include "lib/log_verdict.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_causes = 3;
constexpr double bound_slack = 1.1; // drivers differ in whether they count the headers of cut and joined packets
constexpr double idle_part = 0.01;  // of the median port: less is idle
constexpr double unbalanced_part = 0.5;

double part_of(std::uint64_t some, std::uint64_t others) {
    const double all = static_cast<double>(some) + static_cast<double>(others);
    return all > 0 ? static_cast<double>(some) / all : 1;
}

/// The worse of both directions. One that moved next to nothing beside the other (acknowledgements, chatter) has no
/// say.
double worst_share(const Bytes& rdma, const Bytes& sockets) {
    const auto tx = rdma.tx + sockets.tx;
    const auto rx = rdma.rx + sockets.rx;
    const auto counts = [](std::uint64_t own, std::uint64_t other) { return own >= noise && own >= other / 10; };
    const double sent = counts(tx, rx) ? part_of(rdma.tx, sockets.tx) : 1;
    const double received = counts(rx, tx) ? part_of(rdma.rx, sockets.rx) : 1;
    return std::min(sent, received);
}

Verdict judge_amounts(const Bytes& rdma, const Bytes& sockets, double share) {
    if (rdma.most() < enough_to_judge && sockets.most() < enough_to_judge) {
        return Verdict::Idle;
    }
    if (rdma.most() < noise || share < not_used_share) {
        return Verdict::NotUsed;
    }
    return share >= used_share && rdma.most() >= enough_to_judge ? Verdict::Used : Verdict::Mixed;
}

std::string join(const std::vector<std::string>& texts, std::string_view between = ", ") {
    std::string all;
    for (const auto& text : texts) {
        all += all.empty() ? text : format_text("{}{}", between, text);
    }
    return all;
}

std::uint64_t median_of(std::vector<std::uint64_t> values) {
    if (values.empty()) {
        return 0;
    }
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Whether other steps' bytes may be among the node's.
bool is_shared(const NodeEvidence& node) {
    return !node.exclusive || !node.qps.others.empty();
}

Grade grade_of(const NodeEvidence& node) {
    const bool own = node.qps.known && node.qps.most_own > 0;
    if (!node.traffic.has_source || node.traffic.estimate || (is_shared(node) && !own)) {
        return Grade::D;
    }
    return is_shared(node) ? Grade::C : own ? Grade::A : Grade::B;
}

void note_unexpected(const NodeEvidence& node, NodeVerdict& verdict) {
    for (const auto& port : node.traffic.ports) {
        if (!port.expected && port.bytes.most() >= enough_to_judge) {
            verdict.notes.push_back(format_text("{} moved {} though NCCL was not told to use it", port.port,
                                                bytes_text(port.bytes.most())));
        }
    }
}

/// How the ports that NCCL was told to use have shared the work. True when some did none that had to: as many GPUs use
/// the node as there are such ports, and most of these were used. (A program of one rank uses one of eight.)
bool judge_balance(const NodeEvidence& node, NodeVerdict& verdict) {
    std::vector<const PortTraffic*> ports;
    std::vector<std::uint64_t> moved;
    for (const auto& port : node.traffic.ports) {
        if (port.expected && port.source != ByteSource::None) {
            ports.push_back(&port);
            if (port.bytes.most() >= noise) {
                moved.push_back(port.bytes.most());
            }
        }
    }
    const auto median = static_cast<double>(median_of(moved));
    std::vector<std::string> idle;
    for (const auto* port : ports) {
        const auto bytes = static_cast<double>(port->bytes.most());
        if (bytes < std::max(static_cast<double>(noise), idle_part * median)) {
            idle.push_back(port->port);
        } else if (bytes < unbalanced_part * median) {
            verdict.notes.push_back(format_text("{} moved {:.0f} % of what the middle one of its ports did: is a rank "
                                                "far from its HCA? (rdma-nccl topo)",
                                                port->port, 100 * bytes / median));
        }
    }
    if (idle.empty()) {
        return false;
    }
    const bool all_needed = node.gpus >= ports.size() && 2 * idle.size() < ports.size();
    (all_needed ? verdict.why : verdict.notes).push_back(format_text("{} stayed idle", join(idle)));
    return all_needed;
}

void add_causes(const NodeEvidence& node, std::vector<std::string>& why) {
    std::size_t count = 0;
    const auto add = [&](const std::vector<std::string>& causes) {
        for (const auto& cause : causes) {
            if (count < most_causes && std::find(why.begin(), why.end(), cause) == why.end()) {
                why.push_back(cause);
                ++count;
            }
        }
    };
    if (node.log) {
        add(node.log->causes);
    }
    add(node.causes);
    if (count == 0 && !node.log) {
        why.emplace_back("the cause is not known: verify=full lets NCCL's logs tell it");
    }
}

/// No port has bytes to read: what remains are the ranks' logs, and that they had no queue pairs.
void judge_without_bytes(NodeVerdict& verdict) {
    const auto& node = verdict.evidence;
    if (node.log) {
        const auto judged = judge_log(*node.log);
        verdict.verdict = judged.verdict;
        verdict.why = judged.why;
        return;
    }
    if (node.traffic.ports.empty()) {
        verdict.verdict = verdict.sockets.most() >= enough_to_judge ? Verdict::NotUsed : Verdict::Idle;
        verdict.why.emplace_back("there is no RDMA device");
        return;
    }
    if (node.qps.known && node.qps.most_own == 0) {
        verdict.verdict = verdict.sockets.most() >= enough_to_judge ? Verdict::NotUsed : Verdict::Idle;
        verdict.why.emplace_back("no process of the step had a queue pair whenever they were looked at");
        return;
    }
    verdict.verdict = Verdict::Unknown;
    std::set<std::string> problems;
    for (const auto& port : node.traffic.ports) {
        if (!port.problem.empty()) {
            problems.insert(port.problem);
        }
    }
    verdict.why.push_back(format_text("no port has byte counters{}{}", problems.empty() ? "" : ": ",
                                      join({problems.begin(), problems.end()})));
}

/// On a node that others use, too.
void judge_shared(NodeVerdict& verdict) {
    const auto& qps = verdict.evidence.qps;
    const std::string others = qps.others.empty() ? "another step" : join(qps.others);
    if (qps.known && qps.most_own == 0) {
        if (verdict.rdma.most() >= noise) {
            verdict.notes.push_back(
                format_text("what went over RDMA was not of this step, which had no queue pair ({})", others));
        }
        verdict.rdma = {};
        verdict.share = worst_share(verdict.rdma, verdict.sockets);
        verdict.verdict = judge_amounts(verdict.rdma, verdict.sockets, verdict.share);
        if (verdict.verdict == Verdict::NotUsed) {
            verdict.notes.push_back(format_text("the bytes over sockets may be those of {}", others));
        }
        return;
    }
    const bool clear = qps.known && verdict.verdict == Verdict::Used;
    if (verdict.verdict != Verdict::Idle && !clear) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.push_back(format_text("{} over RDMA and {} over sockets may be partly those of {} on the node",
                                          bytes_text(verdict.rdma.most()), bytes_text(verdict.sockets.most()), others));
    } else if (clear) {
        verdict.notes.push_back(format_text("the bytes may be partly those of {}", others));
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
    } else if (node.gpus > 0 && node.gpu_direct_possible) {
        verdict.gpu_direct = *node.gpu_direct_possible ? GpuDirect::Possible : GpuDirect::Off;
    }
}

void judge_bytes(NodeVerdict& verdict) {
    const auto& node = verdict.evidence;
    verdict.verdict = judge_amounts(verdict.rdma, verdict.sockets, verdict.share);
    if (is_shared(node)) {
        judge_shared(verdict);
    }
    const bool lost = std::any_of(node.traffic.ports.begin(), node.traffic.ports.end(), [](const auto& port) {
        return port.expected && (port.bytes.at_least || port.source == ByteSource::None);
    });
    if (lost && verdict.verdict == Verdict::NotUsed) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.emplace_back("not all of its ports' bytes could be read");
    }
    note_unexpected(node, verdict);
    if ((verdict.verdict == Verdict::Used || verdict.verdict == Verdict::Mixed) && judge_balance(node, verdict)) {
        verdict.verdict = Verdict::Mixed;
    }
    for (const auto& port : node.traffic.ports) {
        if (!port.problem.empty()) {
            verdict.notes.push_back(format_text("{}: {}", port.port, port.problem));
        }
    }
}

NodeVerdict judge(NodeEvidence evidence, const Bytes& rdma, const Bytes& sockets) {
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
    if (verdict.verdict == Verdict::NotUsed || (verdict.verdict == Verdict::Mixed && verdict.why.empty())) {
        add_causes(node, verdict.why);
    }
    judge_gpu_direct(verdict);
    return verdict;
}

/// What one direction of a node can have been, where the other nodes moved `others` in the opposite one.
std::uint64_t bounded(std::uint64_t own, std::uint64_t others) {
    const double most = bound_slack * static_cast<double>(others);
    return static_cast<double>(own) <= most ? own : static_cast<std::uint64_t>(most);
}

/// What every byte between two nodes of a step is: sent by one and received by another.
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
    [[nodiscard]] Bytes sockets_of(const NodeEvidence& node) const {
        return usable_ && !sockets_.at_least ? bound(node.traffic.sockets, sockets_) : node.traffic.sockets;
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

/// The same sentence of several nodes once: with their names, unless all say it.
std::vector<std::string> folded(std::span<const NodeVerdict> nodes, std::vector<std::string> NodeVerdict::*texts) {
    std::vector<std::pair<std::string, std::vector<std::string>>> sentences;
    for (const auto& node : nodes) {
        for (const auto& text : node.*texts) {
            const auto found = std::find_if(sentences.begin(), sentences.end(),
                                            [&text](const auto& sentence) { return sentence.first == text; });
            if (found == sentences.end()) {
                sentences.push_back({text, {node.node}});
            } else {
                found->second.push_back(node.node);
            }
        }
    }
    std::vector<std::string> result;
    for (const auto& [text, names] : sentences) {
        result.push_back(names.size() == nodes.size() ? text : format_text("{}: {}", fold_hostlist(names), text));
    }
    return result;
}

GpuDirect least(GpuDirect a, GpuDirect b) {
    return std::max(a, b); // in the order of their declaration, from On downwards
}

} // namespace

NodeVerdict judge_node(NodeEvidence evidence) {
    const Bytes rdma = evidence.traffic.rdma;
    const Bytes sockets = evidence.traffic.sockets;
    return judge(std::move(evidence), rdma, sockets);
}

StepVerdict judge_step(std::vector<NodeEvidence> nodes, std::vector<std::string> silent) {
    const Sums sums(nodes, silent.empty());
    StepVerdict step;
    step.silent = std::move(silent);
    for (auto& node : nodes) {
        const Bytes rdma = sums.rdma_of(node);
        const Bytes sockets = sums.sockets_of(node);
        step.nodes.push_back(judge(std::move(node), rdma, sockets));
    }
    step.verdict = verdict_of_all(step.nodes);
    step.grade = Grade::A;
    step.gpu_direct = GpuDirect::On;
    step.share = 1;
    for (const auto& node : step.nodes) {
        for (auto [sum, own] : {std::pair{&step.rdma, &node.rdma}, std::pair{&step.sockets, &node.sockets}}) {
            sum->tx += own->tx;
            sum->rx += own->rx;
            sum->at_least = sum->at_least || own->at_least;
        }
        step.grade = std::max(step.grade, node.grade);
        if (node.verdict != Verdict::Idle) {
            step.gpu_direct = least(step.gpu_direct, node.gpu_direct);
            step.share = std::min(step.share, node.share);
        }
    }
    if (step.nodes.empty()) {
        step.grade = Grade::D;
        step.gpu_direct = GpuDirect::Unknown;
    }
    // Where the step as a whole is fine, what single nodes say is noted at them.
    step.why = folded(step.nodes, &NodeVerdict::why);
    if (!step.silent.empty()) {
        step.why.push_back(format_text("nothing was heard of {}", fold_hostlist(step.silent)));
    }
    return step;
}

} // namespace rdma_nccl
