// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/verdict.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl_log/networks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr double bound_slack = 1.1; // drivers differ in whether they count the headers of split and merged packets

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
            rdma_ += node.traffic.rdma;
            sockets_ += node.traffic.sockets;
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
    std::map<std::string_view, std::size_t> index;
    for (const auto& node : nodes) {
        for (const auto& text : node.*texts) {
            const auto [found, is_new] = index.emplace(text, sentences.size());
            if (is_new) {
                sentences.push_back({text, {}});
            }
            sentences[found->second].second.push_back(node.node);
        }
    }
    return mapped(sentences, [&](const auto& sentence) {
        const auto& [text, names] = sentence;
        return names.size() == nodes.size() ? text : format_text("{}: {}", fold_hostlist(names), text);
    });
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

/// Notes at each node which of its ports went down, and at the step all of them, the worst first, in one sentence for
/// ports and one for interfaces.
void note_lost_links(StepVerdict& step) {
    struct Link {
        std::uint64_t times;
        bool by_carrier;
        std::string name, how_often;
    };
    const auto sentence = [](const Link& link, const std::string& name) {
        return format_text("{} {} {} during the step: look at its cable, transceiver and switch port{}", name,
                           link.by_carrier ? "lost its carrier" : "went down", link.how_often,
                           link.by_carrier ? ", unless its MTU was changed" : "");
    };
    std::vector<Link> links;
    for (auto& node : step.nodes) {
        for (const auto& port : node.evidence.traffic.ports) {
            const auto downed = port.link_downed.value_or(LinkDowned());
            const auto times = downed.times().value_or(0);
            if (times > 0) {
                const bool by_carrier = !downed.netdev.empty();
                const auto name = by_carrier ? format_text("interface {} of {}", downed.netdev, port.port) : port.port;
                const auto how_often =
                    format_text("{}{}", format_count(times, "time"), downed.is_full() ? " or more" : "");
                links.push_back({times, by_carrier, format_text("{} of {}", name, node.node), how_often});
                node.notes.push_back(sentence(links.back(), name));
            }
        }
    }
    std::ranges::stable_sort(links, std::greater<>(), &Link::times);
    MessageGroups sentences;
    for (const auto& link : links) {
        sentences.add(link.by_carrier ? "carrier" : "", format_text("{}: {}", link.name, link.how_often),
                      sentence(link, link.name));
    }
    step.lost_links = joined(sentences.texts(), "; ");
}

/// Notes at each node which GIDs that NCCL takes have changed, and at the step all of them in one sentence.
void note_changed_gids(StepVerdict& step) {
    const auto text_of = [](const IpAddress& gid) { return gid.is_zero() ? "empty" : gid.text(); };
    MessageGroups sentences;
    for (auto& node : step.nodes) {
        for (const auto& port : node.evidence.traffic.ports) {
            if (!port.gid_change) {
                continue;
            }
            const auto& change = *port.gid_change;
            const auto entry = format_text("GID {} of {}", change.index, port.port);
            const auto of_node = format_text("{} of {}", entry, node.node);
            const auto moved = change.moved_to ? format_text(" (which is at index {} now)", *change.moved_to) : "";
            const auto what = format_text("was {}{} and is now {}: keep the interface's addresses while jobs run",
                                          text_of(change.before), moved, text_of(change.after));
            node.notes.push_back(format_text("{} {}", entry, what));
            sentences.add("", of_node, format_text("{} {}", of_node, what));
        }
    }
    step.changed_gids = joined(sentences.texts());
}

/// Returns "3 of 8 connections". Both numbers count only connections that need a network.
std::string part(std::uint64_t some, std::uint64_t all) {
    return some == all ? format_text("{} connection{}", all, all == 1 ? "" : "s")
                       : format_text("{} of {} connections", some, all);
}

void judge_gpu_direct(const LogEvidence& log, LogVerdict& verdict) {
    const auto all = log.rdma + log.rdma_gdr;
    if (all == 0) {
        return;
    }
    verdict.gpu_direct = log.rdma_gdr > 0 ? GpuDirect::On : GpuDirect::Off;
    if (log.rdma > 0) {
        const bool one = log.rdma == 1;
        verdict.why.push_back(format_text("{} over RDMA {} without GPUDirect, through the host's memory",
                                          part(log.rdma, all), one ? "goes" : "go"));
    }
}

bool is_over_sockets(const std::string& network) {
    const auto* const known = find_network(network);
    return known != nullptr && known->transport == NcclTransport::Socket;
}

/// Judges a log without any connection over a network.
LogVerdict judge_without_network(const LogEvidence& log) {
    const auto verdict = [](Verdict value, std::string why) {
        return LogVerdict{value, GpuDirect::Unknown, {std::move(why)}};
    };
    if (log.nvlink > 0) {
        return verdict(Verdict::Idle, "the GPUs are connected over NVLink: no network was needed");
    }
    if (log.nodes == 1) {
        return verdict(Verdict::Idle, "all ranks are on one node: no network was needed");
    }
    if (log.nodes > 1 && !log.networks.empty() && std::ranges::all_of(log.networks, is_over_sockets)) {
        return verdict(Verdict::NotUsed, format_text("NCCL chose {} for what goes between its {} nodes",
                                                     joined(log.networks), log.nodes));
    }
    std::string known = log.networks.empty() ? "" : format_text("NCCL chose {}", joined(log.networks));
    if (log.nodes > 1) {
        known += format_text("{}a communicator spans {} nodes", known.empty() ? "" : "; ", log.nodes);
    }
    known = known.empty() ? "" : format_text(" ({})", known);
    return verdict(Verdict::Unknown,
                   log.unread > 0
                       ? format_text("no connection between nodes could be read{}: {} of NCCL not understood", known,
                                     format_count(log.unread, "line"))
                       : format_text("no connection between nodes is in the log{}: they come with the first "
                                     "collective, or the log is not whole",
                                     known));
}

/// Returns true if what NCCL's profiler events say was sent is what the counters say, within 5 %: headers and packets
/// that were sent again are in the counters alone.
bool agrees_with_nccl(const StepVerdict& step) {
    constexpr double tolerance = 0.05;
    double sent = 0;
    for (const auto& communicator : step.communicators) {
        sent += static_cast<double>(communicator.sent);
    }
    const double counted = static_cast<double>(step.rdma.tx) + static_cast<double>(step.sockets.tx);
    return sent >= static_cast<double>(enough_to_judge) && std::abs(counted - sent) <= tolerance * sent;
}

} // namespace

std::string_view name_of(Verdict verdict) {
    constexpr std::array<std::string_view, 5> names{"USED", "MIXED", "NOT USED", "IDLE", "UNKNOWN"};
    return names.at(static_cast<std::size_t>(verdict));
}

std::string_view name_of(Grade grade) {
    constexpr std::array<std::string_view, 5> names{"A+", "A", "B", "C", "D"};
    return names.at(static_cast<std::size_t>(grade));
}

std::string_view name_of(GpuDirect gpu_direct) {
    constexpr std::array<std::string_view, 4> names{"on", "possible", "off", "unknown"};
    return names.at(static_cast<std::size_t>(gpu_direct));
}

StepVerdict judge_step(std::vector<NodeEvidence> nodes, std::vector<std::string> unresponsive) {
    const Sums sums(nodes, unresponsive.empty());
    const bool bounded = sums.bounds_sockets() || (nodes.size() == 1 && unresponsive.empty());
    StepVerdict step;
    step.unresponsive = std::move(unresponsive);
    step.nodes.reserve(nodes.size());
    for (auto& node : nodes) {
        const Bytes rdma = sums.rdma_of(node);
        const Bytes sockets = sums.sockets_of(node);
        step.nodes.push_back(judge_node(std::move(node), rdma, sockets, bounded));
    }
    step.verdict = verdict_of_all(step.nodes);
    step.grade = Grade::A;
    std::optional<GpuDirect> gpu_direct;
    step.share = 1;
    for (const auto& node : step.nodes) {
        step.rdma += node.rdma;
        step.sockets += node.sockets;
        step.grade = std::max(step.grade, node.grade);
        append(step.communicators, node.evidence.communicators);
        if (node.verdict != Verdict::Idle) {
            // Of the values, which are declared from On downwards, the worst.
            gpu_direct = std::max(gpu_direct.value_or(GpuDirect::On), node.gpu_direct);
            step.share = std::min(step.share, node.share);
        }
    }
    step.communicators = profile::merged(std::move(step.communicators));
    if (step.grade == Grade::A && agrees_with_nccl(step)) {
        step.grade = Grade::Best;
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
    if (!step.unresponsive.empty()) {
        step.why.push_back(format_text("no report from {}", fold_hostlist(step.unresponsive)));
    }
    note_lost_links(step);
    note_changed_gids(step);
    return step;
}

LogVerdict judge_log(const LogEvidence& log) {
    const auto rdma = log.rdma + log.rdma_gdr;
    const auto all = rdma + log.sockets + log.other;
    if (all == 0 && log.failed && std::ranges::any_of(log.causes, is_of_transfer)) {
        return {
            Verdict::Mixed, GpuDirect::Unknown, {"a transfer over RDMA failed; no line of its connection is there"}};
    }
    if (!log.info) {
        return {Verdict::Unknown,
                GpuDirect::Unknown,
                {log.ranks == 0 ? "the log has no line of NCCL: NCCL_DEBUG=INFO makes it write some"
                                : "the log has warnings of NCCL alone: it needs NCCL_DEBUG=INFO"}};
    }
    LogVerdict verdict;
    if (all == 0) {
        return judge_without_network(log);
    }
    if (rdma > 0 && log.sockets > 0) {
        verdict.verdict = Verdict::Mixed;
        verdict.why.push_back(part(log.sockets, all) + " over sockets");
    } else if (log.other > 0) {
        verdict.why.push_back(format_text("{} over {}, which may be RDMA or not", part(log.other, all),
                                          log.networks.empty() ? "an unknown network" : joined(log.networks)));
    } else if (rdma > 0) {
        verdict.verdict = log.failed ? Verdict::Mixed : Verdict::Used;
        if (log.failed) {
            verdict.why.push_back(part(rdma, all) + " over RDMA; then NCCL failed");
        }
    } else {
        verdict.verdict = Verdict::NotUsed;
        verdict.why.push_back(part(log.sockets, all) + " over sockets, none over RDMA");
    }
    judge_gpu_direct(log, verdict);
    return verdict;
}

} // namespace rdma_nccl
