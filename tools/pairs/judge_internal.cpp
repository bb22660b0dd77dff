// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/judge_internal.h"

#include "tools/measure/rails.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rdma_nccl {

PairPorts::PairPorts(const PairsReport& report) : first{0} {
    for (const PairNode& node : report.nodes) {
        first.push_back(first.back() + static_cast<unsigned>(node.rails.size()));
    }
}

unsigned PairPorts::node(unsigned number) const {
    const auto behind = std::upper_bound(first.begin(), first.end(), number);
    return static_cast<unsigned>(behind - first.begin()) - 1;
}

bool takes_part(const Pairing& pairing, unsigned node, std::optional<unsigned> rail) {
    const auto& [a, b, rail_a, rail_b] = pairing;
    return (a == node && rail_a == rail.value_or(rail_a)) || (b == node && rail_b == rail.value_or(rail_b));
}

void accuse_ends(const PairPorts& ports, const std::set<unsigned>& blamed, const std::set<unsigned>& seen,
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

void accuse_pairs(const PairsJudging& judging, const std::set<std::uint32_t>& bad, const AccusePair& accuse) {
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

PairsFault pair_fault(PairsFaultKind kind, const Pairing& pairing, bool with_rails, std::string text) {
    const auto& [a, b, rail_a, rail_b] = pairing;
    return {.kind = kind,
            .nodes = a == b ? std::vector{a} : std::vector{a, b},
            .rail = with_rails ? std::optional(rail_a) : std::nullopt,
            .text = std::move(text)};
}

void ObservedResults::add(std::uint32_t result, bool bad) {
    const auto& [a, b, rail_a, rail_b] = judging_.report.results[result].pairing;
    const unsigned first = ports_.number(a, rail_a);
    const unsigned second = ports_.number(b, rail_b);
    observations_.push_back({.end = {first, second}, .node = {a, b}, .bad = bad});
    results_.push_back(result);
    seen_.insert({first, second});
}

void ObservedResults::accuse(const AccuseEnd& end, const AccusePair& pair) {
    if (judging_.can_blame) {
        const auto ends = blame_ends(observations_, ports_.count(), {.share = judging_.rules.share_of_pairs});
        accuse_ends(ports_, {ends.begin(), ends.end()}, seen_, end);
    }
    std::set<std::uint32_t> left;
    for (std::size_t i = 0; i < observations_.size(); ++i) {
        if (observations_[i].bad && !observations_[i].explained) {
            left.insert(results_[i]);
        }
    }
    accuse_pairs(judging_, left, pair);
}

} // namespace rdma_nccl
