// SPDX-License-Identifier: Apache-2.0
// Judges slow nodes, rails, directions and pairs. A direction of a pair has two ends: the sending rail of one node and
// the receiving rail of the other. Ends are blamed for the slow directions that they explain; a node is slow if all its
// ends are.
#include "lib/base/lists.h"
#include "tools/pairs/judging.h"
#include "tools/pairs/output.h"

#include <algorithm>
#include <map>

namespace rdma_nccl::pairs {

namespace {

/// With this many partners, the share of an end's bad samples is more than chance.
constexpr unsigned many_partners = 10;

/// Samples below these shares of normal are bad.
struct Lines {
    /// For single pairs, and for ends with few partners. It is lower in a noisy network, because chance alone puts the
    /// worst of 10,000 measurements 4 deviations below the median, but never below half the usual share.
    double few = 0;
    /// For ends with many partners. It is higher in a quiet network, but at most halfway from the usual share to
    /// normal: nobody changes a node for less than 5 %, and rails differ by 3 % in good clusters.
    double many = 0;
};

Lines lines_of(const Judging& judging) {
    const double slow = judging.rules.share_of_median;
    const double off = judging.rules.deviations * judging.samples.deviation;
    const double near = slow + (1 - slow) / 2;
    return {.few = std::max(slow / 2, std::min(slow, 1 - 2 * off)), .many = std::max(slow, std::min(near, 1 - off))};
}

/// The directions that were measured, by their ends. The sending end of port n is 2 n, the receiving end 2 n + 1.
struct Directions {
    explicit Directions(Judging& of) : judging(of), lines(lines_of(of)) {
        for (const Sample& sample : samples()) {
            const unsigned sender = judging.ports.number(sample.from, sample.from_rail);
            const unsigned receiver = judging.ports.number(sample.to, sample.to_rail);
            loopback |= sample.from == sample.to;
            observations.push_back({.end = {2 * sender, 2 * receiver + 1}, .node = {sample.from, sample.to}});
            seen.insert({sender, receiver});
        }
        set_bad(lines.few);
    }

    [[nodiscard]] const std::vector<Sample>& samples() const { return judging.samples.samples; }

    void set_bad(double line) {
        for (std::size_t i = 0; i < samples().size(); ++i) {
            observations[i].bad = samples()[i].share < line;
        }
    }

    /// Marks the results of bad samples, or only of those that an end explains.
    void mark_slow(bool only_explained) {
        for (std::size_t i = 0; i < samples().size(); ++i) {
            if (observations[i].bad && (observations[i].explained || !only_explained)) {
                judging.mark_slow(samples()[i].result);
            }
        }
    }

    Judging& judging;
    Lines lines;
    std::vector<Observation> observations; ///< in the order of the samples
    std::set<unsigned> seen;               ///< ports
    bool loopback = false;                 ///< the schedule is loopback, which has no other pairs
};

// --- Which ports are slow ---

struct SlowPorts {
    std::set<unsigned> sending, receiving;
};

/// Leaves the samples bad that are below `lines.many`.
SlowPorts blame_ports(Directions& directions) {
    SlowPorts slow;
    const auto blame_with = [&](const BlameRules& rules) {
        for (const unsigned end : blame_ends(directions.observations, 2 * directions.judging.ports.count(), rules)) {
            (end % 2 == 0 ? slow.sending : slow.receiving).insert(end / 2);
        }
    };
    const double share = directions.judging.rules.share_of_pairs;
    blame_with({.share = share});
    // If a port is to blame for one direction, one partner is enough evidence for the other.
    std::vector<unsigned> others;
    std::ranges::transform(slow.sending, std::back_inserter(others), [](unsigned port) { return 2 * port + 1; });
    std::ranges::transform(slow.receiving, std::back_inserter(others), [](unsigned port) { return 2 * port; });
    if (!others.empty()) {
        blame_with({.share = share, .fewest_partners = 1, .only = others});
    }
    directions.set_bad(directions.lines.many);
    blame_with({.share = share, .fewest_partners = many_partners});
    if (directions.loopback) { // a port sends to itself, so its sending end explains both directions
        slow.receiving = slow.sending;
    }
    return slow;
}

// --- What is said of them ---

std::vector<std::string> notes_of(const Report& report, const std::set<std::uint32_t>& results) {
    std::vector<std::string> notes;
    for (const std::uint32_t index : results) {
        for (const std::string& note : report.results[index].notes) {
            if (std::ranges::find(notes, note) == notes.end()) {
                notes.push_back(note);
            }
        }
    }
    return notes;
}

/// `chosen`: indices of samples.
SlowFacts facts_of(const Directions& directions, const std::vector<std::size_t>& chosen) {
    std::vector<double> speeds;
    std::vector<double> normals;
    std::vector<double> shares;
    std::set<std::uint32_t> pairs;
    std::set<std::uint32_t> slow;
    for (const std::size_t i : chosen) {
        const Sample& sample = directions.samples()[i];
        speeds.push_back(sample.gbps);
        normals.push_back(directions.judging.samples.kinds[sample.kind].normal_gbps);
        shares.push_back(sample.share);
        pairs.insert(sample.result);
        if (sample.share < directions.lines.many) {
            slow.insert(sample.result);
        }
    }
    return {.gbps = median_of(std::move(speeds)),
            .normal_gbps = median_of(std::move(normals)),
            .share = median_of(std::move(shares)),
            .slow_pairs = static_cast<unsigned>(slow.size()),
            .pairs = static_cast<unsigned>(pairs.size()),
            .notes = notes_of(directions.judging.report, slow)};
}

void accuse_end(const Directions& directions, unsigned node, std::optional<unsigned> rail, SlowWay way) {
    Judging& judging = directions.judging;
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < directions.samples().size(); ++i) {
        const Sample& sample = directions.samples()[i];
        const bool sends = sample.from == node && sample.from_rail == rail.value_or(sample.from_rail);
        const bool receives = sample.to == node && sample.to_rail == rail.value_or(sample.to_rail);
        if ((sends && way != SlowWay::Receives) || (receives && way != SlowWay::Sends)) {
            chosen.push_back(i);
        }
    }
    SlowFacts facts = facts_of(directions, chosen);
    if (rail) {
        const double rate = judging.report.nodes[node].rails[*rail].rate_gbps;
        const double usual = usual_rate(judging.report, *rail);
        if (rate > 0 && rate < usual) {
            facts.rate_gbps = rate;
            facts.usual_rate_gbps = usual;
        }
    }
    const auto kind = way != SlowWay::Both ? FaultKind::Direction : rail ? FaultKind::Rail : FaultKind::Node;
    judging.add({kind, {node}, rail, slow_end_text(judging.report, node, rail, way, facts), facts.share});
}

void accuse_ports(const Directions& directions, const SlowPorts& slow) {
    std::map<SlowWay, std::set<unsigned>> ports; // in the order of SlowWay
    for (const unsigned port : slow.sending) {
        ports[slow.receiving.contains(port) ? SlowWay::Both : SlowWay::Sends].insert(port);
    }
    for (const unsigned port : slow.receiving) {
        if (!slow.sending.contains(port)) {
            ports[SlowWay::Receives].insert(port);
        }
    }
    for (const auto& [way, blamed] : ports) {
        accuse_ends(
            directions.judging.ports, blamed, directions.seen,
            [&, how = way](unsigned node, std::optional<unsigned> rail) { accuse_end(directions, node, rail, how); });
    }
}

// --- Pairs that no port explains ---

/// The nodes that a node was measured with.
struct Partners {
    std::optional<unsigned> first;
    bool several = false;

    void add(unsigned node) {
        several |= first.has_value() && *first != node;
        first = first.value_or(node);
    }
    [[nodiscard]] bool other_than(unsigned node) const { return several || (first && *first != node); }
};
struct NodePartners {
    Partners good, bad;

    /// Returns whether the node is good with all partners but this one.
    [[nodiscard]] bool good_without(unsigned node) const { return good.other_than(node) && !bad.other_than(node); }
};

std::vector<NodePartners> partners_of_nodes(const Directions& directions) {
    std::vector<NodePartners> partners(directions.judging.report.nodes.size());
    for (const Observation& one : directions.observations) {
        if (!one.bad || !one.explained) { // samples that another node explains say nothing about this one
            for (const auto& [node, partner] : {std::pair(one.node[0], one.node[1]), {one.node[1], one.node[0]}}) {
                (one.bad ? partners[node].bad : partners[node].good).add(partner);
            }
        }
    }
    return partners;
}

/// Accuses one pair, by its bad samples.
void accuse_pair(const Directions& directions, const std::vector<std::size_t>& bad, bool with_rails,
                 const std::vector<NodePartners>& partners) {
    Judging& judging = directions.judging;
    const auto& samples = directions.samples();
    const Pairing& pairing = judging.report.results[samples[bad[0]].result].pairing;
    const auto is_forward = [&](std::size_t i) { return samples[i].from == pairing.a; };
    const bool forward = std::ranges::any_of(bad, is_forward);
    const bool backward = !std::ranges::all_of(bad, is_forward);
    const SlowWay way = forward && backward ? SlowWay::Both : (forward ? SlowWay::Sends : SlowWay::Receives);
    const bool others_good = partners[pairing.a].good_without(pairing.b) && partners[pairing.b].good_without(pairing.a);
    const SlowFacts facts = facts_of(directions, bad);
    judging.add({way == SlowWay::Both ? FaultKind::Link : FaultKind::Direction,
                 {pairing.a, pairing.b},
                 with_rails ? std::optional(pairing.rail_a) : std::nullopt,
                 slow_link_text(judging.report, pairing, with_rails, way, others_good, facts),
                 facts.share});
}

/// Accuses the pairs of nodes whose bad samples no end explains.
void accuse_unexplained(const Directions& directions) {
    std::map<std::uint32_t, std::vector<std::size_t>> bad_samples;
    std::set<std::uint32_t> bad;
    for (std::size_t i = 0; i < directions.samples().size(); ++i) {
        if (directions.observations[i].bad && !directions.observations[i].explained) {
            bad_samples[directions.samples()[i].result].push_back(i);
            bad.insert(directions.samples()[i].result);
        }
    }
    if (bad.empty()) {
        return;
    }
    const auto partners = partners_of_nodes(directions);
    accuse_pairs(directions.judging, bad, [&](const std::vector<std::uint32_t>& results, bool with_rails) {
        std::vector<std::size_t> chosen;
        for (const std::uint32_t index : results) {
            append(chosen, bad_samples[index]);
        }
        accuse_pair(directions, chosen, with_rails, partners);
    });
}

/// Reports it if all are equally slow, because then nothing stands out.
void judge_floor(Judging& judging) {
    const double floor = judging.rules.floor_share;
    for (const PortKind& kind : judging.samples.kinds) {
        if (kind.rate_gbps > 0 && kind.normal_gbps < floor * kind.rate_gbps) {
            judging.add({FaultKind::AllSlow,
                         {},
                         {},
                         all_slow_text(kind.normal_gbps, kind.rate_gbps, floor),
                         kind.normal_gbps / kind.rate_gbps});
        }
    }
}

} // namespace

void judge_speed(Judging& judging) {
    Directions directions(judging);
    directions.mark_slow(false);
    if (judging.can_blame || directions.loopback) {
        const auto slow = blame_ports(directions);
        directions.mark_slow(true);
        accuse_ports(directions, slow);
        directions.set_bad(directions.lines.few);
    }
    accuse_unexplained(directions);
    judge_floor(judging);
}

} // namespace rdma_nccl::pairs
