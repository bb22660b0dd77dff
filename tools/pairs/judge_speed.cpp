// SPDX-License-Identifier: Apache-2.0
// Judges slow nodes, rails, directions and pairs. A direction of a pair has two ends: the sending rail of one node and
// the receiving rail of the other. Ends are blamed for the slow directions that they explain; a node is slow if all its
// ends are.
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/judge_internal.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace rdma_nccl {

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

Lines lines_of(const PairsJudging& judging) {
    const double slow = judging.rules.share_of_median;
    const double off = judging.rules.deviations * judging.samples.deviation;
    const double near = slow + (1 - slow) / 2;
    return {.few = std::max(slow / 2, std::min(slow, 1 - 2 * off)), .many = std::max(slow, std::min(near, 1 - off))};
}

/// The sending end of port n is 2 n, the receiving end 2 n + 1.
class Speed {
public:
    explicit Speed(PairsJudging& of) : judging(of), ports(of.report), lines(lines_of(of)) {
        for (const PairSample& sample : samples()) {
            const unsigned sender = 2 * ports.number(sample.from, sample.from_rail);
            const unsigned receiver = 2 * ports.number(sample.to, sample.to_rail) + 1;
            loopback |= sample.from == sample.to;
            observations.push_back(
                {.end = {sender, receiver}, .node = {sample.from, sample.to}, .bad = sample.share < lines.few});
            seen.insert({sender / 2, receiver / 2});
        }
    }

    void judge() {
        mark_slow();
        if (judging.can_blame || loopback) {
            blame();
        }
        accuse_pairs();
        judge_floor();
    }

private:
    [[nodiscard]] const std::vector<PairSample>& samples() const { return judging.samples.samples; }

    void mark_slow() {
        for (std::size_t i = 0; i < samples().size(); ++i) {
            PairState& state = judging.verdict.results[samples()[i].result];
            if (observations[i].bad && state == PairState::Unknown) {
                state = PairState::Slow;
            }
        }
    }

    void blame() {
        std::set<unsigned> sending;
        std::set<unsigned> receiving;
        const auto blame_with = [&](const BlameRules& rules) {
            for (const unsigned end : blame_ends(observations, 2 * ports.count(), rules)) {
                (end % 2 == 0 ? sending : receiving).insert(end / 2);
            }
        };
        const double share = judging.rules.share_of_pairs;
        blame_with({.share = share});
        // If a port is to blame for one direction, one partner is enough evidence for the other.
        const auto others = other_ends(sending, receiving);
        if (!others.empty()) {
            blame_with({.share = share, .fewest_partners = 1, .only = others});
        }
        set_bad(lines.many);
        blame_with({.share = share, .fewest_partners = many_partners});
        if (loopback) { // a port sends to itself, so its sending end explains both directions
            receiving = sending;
        }
        mark_slow_of_blamed();
        accuse_ends(sending, receiving);
        set_bad(lines.few);
    }

    static std::vector<unsigned> other_ends(const std::set<unsigned>& sending, const std::set<unsigned>& receiving) {
        std::vector<unsigned> ends;
        ends.reserve(sending.size() + receiving.size());
        for (const unsigned port : sending) {
            ends.push_back(2 * port + 1);
        }
        for (const unsigned port : receiving) {
            ends.push_back(2 * port);
        }
        return ends;
    }

    void set_bad(double line) {
        for (std::size_t i = 0; i < samples().size(); ++i) {
            observations[i].bad = samples()[i].share < line;
        }
    }

    void mark_slow_of_blamed() {
        for (std::size_t i = 0; i < samples().size(); ++i) {
            PairState& state = judging.verdict.results[samples()[i].result];
            if (observations[i].explained && observations[i].bad && state == PairState::Unknown) {
                state = PairState::Slow;
            }
        }
    }

    void accuse_ends(const std::set<unsigned>& sending, const std::set<unsigned>& receiving) {
        std::set<unsigned> both;
        std::set<unsigned> sends;
        std::set<unsigned> receives;
        std::set_intersection(sending.begin(), sending.end(), receiving.begin(), receiving.end(),
                              std::inserter(both, both.end()));
        std::set_difference(sending.begin(), sending.end(), both.begin(), both.end(),
                            std::inserter(sends, sends.end()));
        std::set_difference(receiving.begin(), receiving.end(), both.begin(), both.end(),
                            std::inserter(receives, receives.end()));
        accuse_ports(both, SlowWay::Both);
        accuse_ports(sends, SlowWay::Sends);
        accuse_ports(receives, SlowWay::Receives);
    }

    void accuse_ports(const std::set<unsigned>& blamed, SlowWay way) {
        rdma_nccl::accuse_ends(ports, blamed, seen,
                               [&](unsigned node, std::optional<unsigned> rail) { accuse_end(node, rail, way); });
    }

    void accuse_end(unsigned node, std::optional<unsigned> rail, SlowWay way) {
        std::vector<std::size_t> chosen;
        for (std::size_t i = 0; i < samples().size(); ++i) {
            const PairSample& sample = samples()[i];
            const bool sends = sample.from == node && sample.from_rail == rail.value_or(sample.from_rail);
            const bool receives = sample.to == node && sample.to_rail == rail.value_or(sample.to_rail);
            if ((sends && way != SlowWay::Receives) || (receives && way != SlowWay::Sends)) {
                chosen.push_back(i);
            }
        }
        SlowFacts facts = facts_of(chosen);
        if (rail) {
            set_rates(facts, node, *rail);
        }
        const auto kind = way != SlowWay::Both ? PairsFaultKind::Direction
                          : rail               ? PairsFaultKind::Rail
                                               : PairsFaultKind::Node;
        judging.add({kind, {node}, rail, slow_end_text(judging.report, node, rail, way, facts)}, facts.share);
    }

    void set_rates(SlowFacts& facts, unsigned node, unsigned rail) const {
        const double rate = judging.report.nodes[node].rails[rail].rate_gbps;
        const double usual = usual_rate(judging.report, rail);
        if (rate > 0 && rate < usual) {
            facts.rate_gbps = rate;
            facts.usual_rate_gbps = usual;
        }
    }

    [[nodiscard]] SlowFacts facts_of(const std::vector<std::size_t>& chosen) const {
        std::vector<double> speeds;
        std::vector<double> normals;
        std::vector<double> shares;
        std::set<std::uint32_t> pairs;
        std::set<std::uint32_t> slow;
        for (const std::size_t i : chosen) {
            const PairSample& sample = samples()[i];
            speeds.push_back(sample.gbps);
            normals.push_back(judging.samples.kinds[sample.kind].normal_gbps);
            shares.push_back(sample.share);
            pairs.insert(sample.result);
            if (sample.share < lines.many) {
                slow.insert(sample.result);
            }
        }
        return {.gbps = quantile(std::move(speeds), 0.5).value_or(0),
                .normal_gbps = quantile(std::move(normals), 0.5).value_or(0),
                .share = quantile(std::move(shares), 0.5).value_or(0),
                .slow_pairs = static_cast<unsigned>(slow.size()),
                .pairs = static_cast<unsigned>(pairs.size()),
                .rate_gbps = {},
                .usual_rate_gbps = {},
                .notes = notes_of(slow)};
    }

    [[nodiscard]] std::vector<std::string> notes_of(const std::set<std::uint32_t>& results) const {
        std::vector<std::string> notes;
        for (const std::uint32_t index : results) {
            for (const std::string& note : judging.report.results[index].notes) {
                if (notes.size() < 3 && std::find(notes.begin(), notes.end(), note) == notes.end()) {
                    notes.push_back(note);
                }
            }
        }
        return notes;
    }

    /// Accuses the pairs of nodes whose bad samples no end explains.
    void accuse_pairs() {
        std::map<std::uint32_t, std::vector<std::size_t>> bad_samples;
        std::set<std::uint32_t> bad;
        for (std::size_t i = 0; i < samples().size(); ++i) {
            if (observations[i].bad && !observations[i].explained) {
                bad_samples[samples()[i].result].push_back(i);
                bad.insert(samples()[i].result);
            }
        }
        if (bad.empty()) {
            return;
        }
        const auto partners = partners_of_nodes();
        rdma_nccl::accuse_pairs(judging, bad, [&](const std::vector<std::uint32_t>& results, bool with_rails) {
            std::vector<std::size_t> chosen;
            for (const std::uint32_t index : results) {
                chosen.insert(chosen.end(), bad_samples[index].begin(), bad_samples[index].end());
            }
            accuse_pair(chosen, with_rails, partners);
        });
    }

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
    };

    [[nodiscard]] std::vector<NodePartners> partners_of_nodes() const {
        std::vector<NodePartners> partners(judging.report.nodes.size());
        for (const Observation& one : observations) {
            const auto add = [&](unsigned node, unsigned partner) {
                if (!one.bad || !one.explained) { // samples that another node explains say nothing about this one
                    (one.bad ? partners[node].bad : partners[node].good).add(partner);
                }
            };
            add(one.node[0], one.node[1]);
            add(one.node[1], one.node[0]);
        }
        return partners;
    }

    /// Accuses one pair, by its bad samples.
    void accuse_pair(const std::vector<std::size_t>& bad, bool with_rails, const std::vector<NodePartners>& partners) {
        const Pairing& pairing = judging.report.results[samples()[bad[0]].result].pairing;
        const auto is_forward = [&](std::size_t i) { return samples()[i].from == pairing.a; };
        const bool forward = std::any_of(bad.begin(), bad.end(), is_forward);
        const bool backward = !std::all_of(bad.begin(), bad.end(), is_forward);
        const SlowWay way = forward && backward ? SlowWay::Both : (forward ? SlowWay::Sends : SlowWay::Receives);
        const auto others_good = [&](unsigned node, unsigned other) {
            return partners[node].good.other_than(other) && !partners[node].bad.other_than(other);
        };
        const SlowFacts facts = facts_of(bad);
        judging.add({way == SlowWay::Both ? PairsFaultKind::Link : PairsFaultKind::Direction,
                     {pairing.a, pairing.b},
                     with_rails ? std::optional(pairing.rail_a) : std::nullopt,
                     slow_link_text(judging.report, pairing, with_rails, way,
                                    others_good(pairing.a, pairing.b) && others_good(pairing.b, pairing.a), facts)},
                    facts.share);
    }

    /// Reports it if all are equally slow, because then nothing stands out.
    void judge_floor() {
        for (const PairKind& kind : judging.samples.kinds) {
            if (kind.rate_gbps > 0 && kind.normal_gbps < judging.rules.floor_share * kind.rate_gbps) {
                judging.add({PairsFaultKind::AllSlow,
                             {},
                             {},
                             all_slow_text(kind.normal_gbps, kind.rate_gbps, judging.rules.floor_share)},
                            kind.normal_gbps / kind.rate_gbps);
            }
        }
    }

    PairsJudging& judging;
    PairPorts ports;
    Lines lines;
    std::vector<Observation> observations; ///< in the order of the samples
    std::set<unsigned> seen;               ///< ports
    bool loopback = false;                 ///< the schedule is loopback, which has no other pairs
};

} // namespace

void judge_speed(PairsJudging& judging) {
    Speed(judging).judge();
}

} // namespace rdma_nccl
