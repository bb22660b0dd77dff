// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/judging.h"

#include "tools/measure/rails.h"
#include "tools/pairs/output.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace rdma_nccl::pairs {

namespace {

struct Count {
    unsigned all = 0, bad = 0; ///< of the observations that are not yet explained
};

void for_each_end(const Observation& observation, const auto& call) {
    call(observation.end[0]);
    if (observation.end[1] != observation.end[0]) {
        call(observation.end[1]);
    }
}

class Blame {
public:
    Blame(std::vector<Observation>& of, unsigned ends, const BlameRules& with)
        : observations(of), rules(with), by_end(ends), counts(ends), candidates(with.only.begin(), with.only.end()) {
        if (candidates.empty()) {
            candidates.resize(ends);
            std::iota(candidates.begin(), candidates.end(), 0U);
        }
        for (std::uint32_t i = 0; i < observations.size(); ++i) {
            for_each_end(observations[i], [&](unsigned end) { by_end[end].push_back(i); });
            if (!observations[i].explained) {
                count(observations[i], 1U);
            }
        }
    }

    [[nodiscard]] std::optional<unsigned> worst() const {
        std::optional<unsigned> found;
        for (const unsigned end : candidates) {
            if (bad_enough(counts[end]) && (!found || worse(counts[end], counts[*found])) && has_partners(end)) {
                found = end;
            }
        }
        return found;
    }

    void explain(unsigned end) {
        for (const std::uint32_t index : by_end[end]) {
            Observation& one = observations[index];
            if (!one.explained) {
                one.explained = true;
                count(one, ~0U);
            }
        }
    }

private:
    void count(const Observation& one, unsigned by) {
        for_each_end(one, [&](unsigned end) {
            counts[end].all += by;
            counts[end].bad += one.bad ? by : 0;
        });
    }

    [[nodiscard]] bool bad_enough(const Count& count) const {
        return count.bad > 0 && count.bad >= rules.share * count.all;
    }

    /// Compares the share of bad observations, then their number.
    static bool worse(const Count& one, const Count& other) {
        const std::uint64_t left = std::uint64_t{one.bad} * other.all;
        const std::uint64_t right = std::uint64_t{other.bad} * one.all;
        return left != right ? left > right : one.bad > other.bad;
    }

    [[nodiscard]] bool has_partners(unsigned end) const {
        std::vector<unsigned> partners;
        for (const std::uint32_t index : by_end[end]) {
            const Observation& one = observations[index];
            if (one.node[0] == one.node[1]) {
                return true;
            }
            const unsigned partner = one.node[one.end[0] == end ? 1 : 0];
            if (!one.explained && std::ranges::find(partners, partner) == partners.end()) {
                partners.push_back(partner);
            }
            if (partners.size() >= rules.fewest_partners) {
                return true;
            }
        }
        return false;
    }

    std::vector<Observation>& observations;
    const BlameRules& rules;
    std::vector<std::vector<std::uint32_t>> by_end; ///< indices of the observations
    std::vector<Count> counts;
    std::vector<unsigned> candidates;
};

} // namespace

std::vector<unsigned> blame_ends(std::vector<Observation>& observations, unsigned ends, const BlameRules& rules) {
    Blame blame(observations, ends, rules);
    std::vector<unsigned> found;
    while (const auto end = blame.worst()) {
        found.push_back(*end);
        blame.explain(*end);
    }
    return found;
}

Ports::Ports(const Report& report) : first{0} {
    for (const measure::Node& node : report.nodes) {
        first.push_back(first.back() + static_cast<unsigned>(node.rails.size()));
    }
}

unsigned Ports::node(unsigned number) const {
    const auto behind = std::upper_bound(first.begin(), first.end(), number);
    return static_cast<unsigned>(behind - first.begin()) - 1;
}

bool takes_part(const Pairing& pairing, unsigned node, std::optional<unsigned> rail) {
    const auto& [a, b, rail_a, rail_b] = pairing;
    return (a == node && rail_a == rail.value_or(rail_a)) || (b == node && rail_b == rail.value_or(rail_b));
}

void accuse_ends(const Ports& ports, const std::set<unsigned>& blamed, const std::set<unsigned>& seen,
                 const AccuseEnd& accuse) {
    std::map<unsigned, std::vector<unsigned>> rails;
    for (const unsigned port : blamed) {
        rails[ports.node(port)].push_back(ports.rail(port));
    }
    for (const auto& [node, of_it] : rails) {
        const auto measured = static_cast<std::size_t>(
            std::distance(seen.lower_bound(ports.number(node, 0)), seen.lower_bound(ports.number(node + 1, 0))));
        if (of_it.size() >= measured) {
            accuse(node, {});
            continue;
        }
        for (const unsigned rail : of_it) {
            accuse(node, rail);
        }
    }
}

void accuse_pairs(const Judging& judging, const std::set<std::uint32_t>& bad, const AccusePair& accuse) {
    const auto key = [&](std::uint32_t index) {
        const Pairing& pairing = judging.report.results[index].pairing;
        return std::minmax({pairing.a, pairing.b});
    };
    std::map<std::pair<unsigned, unsigned>, std::vector<std::uint32_t>> pairs;
    for (const std::uint32_t index : bad) {
        pairs[key(index)].push_back(index);
    }
    std::map<std::pair<unsigned, unsigned>, std::size_t> counted;
    for (const std::uint32_t index : judging.results) {
        if (!pairs.empty() && pairs.contains(key(index))) {
            ++counted[key(index)];
        }
    }
    for (const auto& [nodes, results] : pairs) {
        if (results.size() > 1 && results.size() == counted[nodes]) {
            accuse(results, false);
            continue;
        }
        for (const std::uint32_t index : results) {
            accuse({index}, true);
        }
    }
}

void ObservedResults::add(std::uint32_t result, bool bad) {
    const auto& [a, b, rail_a, rail_b] = judging_.report.results[result].pairing;
    const unsigned first = judging_.ports.number(a, rail_a);
    const unsigned second = judging_.ports.number(b, rail_b);
    observations_.push_back({.end = {first, second}, .node = {a, b}, .bad = bad});
    results_.push_back(result);
    seen_.insert({first, second});
}

void ObservedResults::accuse(FaultKind kind, const DescribeEnd& describe_end, const DescribePair& describe_pair) {
    if (judging_.can_blame) {
        const auto ends = blame_ends(observations_, judging_.ports.count(), {.share = judging_.rules.share_of_pairs});
        accuse_ends(judging_.ports, {ends.begin(), ends.end()}, seen_,
                    [&](unsigned node, std::optional<unsigned> rail) {
                        auto [text, badness] = describe_end(node, rail, name_of_end(judging_.report, node, rail));
                        judging_.add({kind, {node}, rail, std::move(text), badness});
                    });
    }
    std::set<std::uint32_t> left;
    for (std::size_t i = 0; i < observations_.size(); ++i) {
        if (observations_[i].bad && !observations_[i].explained) {
            left.insert(results_[i]);
        }
    }
    accuse_pairs(judging_, left, [&](const std::vector<std::uint32_t>& results, bool with_rails) {
        const Pairing& pairing = judging_.report.results[results.front()].pairing;
        auto [text, badness] = describe_pair(results, name_of_link(judging_.report, pairing, with_rails));
        judging_.add({.kind = kind,
                      .nodes = pairing.a == pairing.b ? std::vector{pairing.a} : std::vector{pairing.a, pairing.b},
                      .rail = with_rails ? std::optional(pairing.rail_a) : std::nullopt,
                      .text = std::move(text),
                      .badness = badness});
    });
}

} // namespace rdma_nccl::pairs
