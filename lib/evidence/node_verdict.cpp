// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/evidence/verdict.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <set>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_causes = 3;
constexpr double idle_part = 0.01; // of the median port's bytes; less is idle
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
        const bool counts = port.expected && port.source != ByteSource::None;
        expected += counts ? 1 : 0;
        if (counts && port.bytes.most() >= noise) {
            moved.push_back(port.bytes.most());
        }
    }
    const auto median = static_cast<double>(median_of(moved));
    std::vector<std::string> idle;
    for (const auto& port : node.traffic.ports) {
        const auto bytes = static_cast<double>(port.bytes.most());
        if (!port.expected) {
            if (bytes >= static_cast<double>(enough_to_judge)) {
                verdict.notes.push_back(format_text("{} moved {} though NCCL was not told to use it", port.port,
                                                    format_bytes(port.bytes.most())));
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
            if (count < most_causes && !contains(why, cause)) {
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

/// Judges a node that others use too. If only the kernel has queue pairs, those of a short step may have existed
/// between two samples.
void judge_shared(NodeVerdict& verdict) {
    const auto& qps = verdict.evidence.qps;
    const std::string others = others_of(verdict.evidence);
    const bool kernel_alone =
        verdict.evidence.exclusive &&
        std::ranges::all_of(qps.others, [](const std::string& other) { return other.starts_with(kernel_owner); });
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
                                          format_bytes(verdict.rdma.most()), format_bytes(verdict.sockets.most()),
                                          others));
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

void note_problems(NodeVerdict& verdict) {
    const auto note = [&](const std::string& name, const std::string& problem) {
        if (!problem.empty()) {
            verdict.notes.push_back(format_text("{}: {}", name, problem));
        }
    };
    for (const auto& port : verdict.evidence.traffic.ports) {
        note(port.port, port.problem);
    }
    for (const auto& netdev : verdict.evidence.traffic.netdevs) {
        note(netdev.netdev, netdev.problem);
    }
}

/// Makes a MIXED node USED if RDMA went both ways and the excess over sockets one way only: data sets that are read, or
/// checkpoints that are written. Collectives over sockets go both ways.
void discount_files(NodeVerdict& verdict) {
    const auto least = std::min(verdict.sockets.tx, verdict.sockets.rx);
    const Bytes both_ways{least, least, verdict.sockets.at_least};
    const double share = worst_share(verdict.rdma, both_ways);
    if (verdict.verdict != Verdict::Mixed || std::min(verdict.rdma.tx, verdict.rdma.rx) < enough_to_judge ||
        judge_amounts(verdict.rdma, both_ways, share) != Verdict::Used) {
        return;
    }
    verdict.verdict = Verdict::Used;
    verdict.notes.push_back(format_text("{} over sockets went one way, like file I/O, and do not count",
                                        format_bytes(verdict.sockets.most() - least)));
    verdict.elsewhere.tx += verdict.sockets.tx - least;
    verdict.elsewhere.rx += verdict.sockets.rx - least;
    verdict.sockets = both_ways;
    verdict.share = share;
}

/// Bytes over NVLink between nodes (MNNVL) are counted nowhere and need no network: sockets are then no fallback. If
/// the log shows that only NVLink connects the nodes, bytes over RDMA are not NCCL's, so MIXED becomes IDLE, too. USED
/// stays: RDMA works. A log that says only which network NCCL chose proves nothing: NCCL chooses one in any case.
void judge_nvlink(NodeVerdict& verdict) {
    const auto& node = verdict.evidence;
    const auto by_log = node.log ? judge_log(*node.log) : LogVerdict();
    const bool only_nvlink = by_log.verdict == Verdict::Idle && node.log->nvlink > 0;
    const bool only_chosen = by_log.verdict == Verdict::NotUsed && node.log->sockets == 0;
    if (only_nvlink && node.log->unread == 0 && verdict.verdict != Verdict::Used &&
        verdict.verdict != Verdict::Unknown) {
        verdict.verdict = Verdict::Idle;
        verdict.why = by_log.why;
    } else if ((only_nvlink || only_chosen || by_log.verdict == Verdict::Unknown) &&
               verdict.verdict == Verdict::NotUsed && node.may_use_nvlink) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.push_back(format_text("NVLink may have carried NCCL's bytes between the nodes, which no counter "
                                          "shows; what went over sockets need not be NCCL's: {}",
                                          !node.log                            ? "verify=full tells"
                                          : by_log.verdict == Verdict::Unknown ? by_log.why.front()
                                                                               : "NCCL's log lacks connections"));
        add_causes(node, verdict.verdict, verdict.why);
    }
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
    discount_files(verdict);
    if (lost && verdict.verdict == Verdict::NotUsed) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.emplace_back("the bytes of some ports could not be read");
    }
    if ((verdict.verdict == Verdict::Used || verdict.verdict == Verdict::Mixed) && judge_balance(node, verdict)) {
        verdict.verdict = Verdict::Mixed;
    }
    note_problems(verdict);
}

} // namespace

NodeVerdict judge_node(NodeEvidence evidence, const Bytes& rdma, const Bytes& sockets, bool bounded) {
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
    const bool not_used = verdict.verdict == Verdict::NotUsed;
    if (node.problem.empty()) {
        judge_nvlink(verdict);
    }
    const bool by_bytes = node.problem.empty() && (node.traffic.has_source || !node.log);
    const bool may_be_elsewhere = !bounded && by_bytes;
    verdict.not_used_but_for_nvlink = not_used && verdict.verdict == Verdict::Unknown && !may_be_elsewhere;
    if (may_be_elsewhere && (verdict.verdict == Verdict::NotUsed || verdict.verdict == Verdict::Mixed)) {
        verdict.verdict = Verdict::Unknown;
        verdict.why.push_back(
            format_text("whether its {} over sockets went to nodes of the step cannot be told without "
                        "all of their sums",
                        format_bytes(verdict.sockets.most())));
    }
    if (verdict.verdict == Verdict::NotUsed || verdict.verdict == Verdict::Mixed) {
        add_causes(node, verdict.verdict, verdict.why);
    }
    judge_gpu_direct(verdict);
    return verdict;
}

NodeVerdict judge_node(NodeEvidence evidence) {
    const Bytes rdma = evidence.traffic.rdma;
    const Bytes sockets = evidence.traffic.sockets;
    return judge_node(std::move(evidence), rdma, sockets, true);
}

} // namespace rdma_nccl
