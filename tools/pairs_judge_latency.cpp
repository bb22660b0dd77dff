// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "tools/pairs_judge_parts.h"
#include "tools/pairs_words.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// Results that are nobody's fault so far.
std::vector<std::uint32_t> good_with_latency(const PairsJudging& judging) {
    std::vector<std::uint32_t> results;
    for (const std::uint32_t index : judging.results) {
        if (judging.report.results[index].latency && judging.verdict.results[index] == PairState::Unknown) {
            results.push_back(index);
        }
    }
    return results;
}

std::string words(const PairsJudging& judging, const std::string& where, double latency, unsigned pairs) {
    const double median = *judging.verdict.median_latency_us;
    return format_text("{}: latency of {:.1f} us where the median is {:.1f} ({:.1f} times){}; look at power saving of "
                       "CPUs and PCIe (C-states, ASPM), at the route and at congestion",
                       where, latency, median, latency / median,
                       pairs > 1 ? format_text(", on {} pairs of ports", pairs) : std::string());
}

/// What no node explains.
void add_pairs(PairsJudging& judging, const std::set<std::uint32_t>& left) {
    const auto add = [&](std::uint32_t index, bool with_rails, unsigned count) {
        const Pairing& pairing = judging.report.results[index].pairing;
        const double latency = judging.report.results[index].latency->median_us;
        judging.add({PairsFaultKind::Latency,
                     pairing.a == pairing.b ? std::vector{pairing.a} : std::vector{pairing.a, pairing.b},
                     with_rails ? std::optional(pairing.rail_a) : std::nullopt,
                     words(judging, pair_link_name(judging.report, pairing, with_rails), latency, count)},
                    -latency);
    };
    for (const BadPair& pair : by_pair(judging, left)) {
        if (pair.all) {
            add(pair.results[0], false, static_cast<unsigned>(pair.results.size()));
            continue;
        }
        for (const std::uint32_t index : pair.results) {
            add(index, true, 1);
        }
    }
}

} // namespace

void judge_latency(PairsJudging& judging) {
    const auto results = good_with_latency(judging);
    std::vector<double> values;
    values.reserve(results.size());
    for (const std::uint32_t index : results) {
        values.push_back(judging.report.results[index].latency->median_us);
    }
    // Of two values the lower one is normal.
    const double normal = values.size() == 2 ? *quantile(values, 0) : quantile(values, 0.5).value_or(0);
    const PairPorts ports(judging.report);
    std::vector<Observation> observations;
    std::set<unsigned> seen;
    bool any = false;
    for (std::size_t i = 0; i < results.size(); ++i) {
        const auto& [a, b, rail_a, rail_b] = judging.report.results[results[i]].pairing;
        const bool bad = normal > 0 && values[i] > judging.rules.latency_factor * normal;
        any |= bad;
        observations.push_back({.end = {ports.number(a, rail_a), ports.number(b, rail_b)}, .node = {a, b}, .bad = bad});
        seen.insert({ports.number(a, rail_a), ports.number(b, rail_b)});
        if (bad) {
            judging.verdict.results[results[i]] = PairState::Slow;
        }
    }
    if (!any) {
        return;
    }
    judging.verdict.median_latency_us = normal;
    std::set<unsigned> blamed;
    if (judging.can_blame) {
        const auto ends = blame_ends(observations, ports.count(), {.share = judging.rules.share_of_pairs});
        blamed.insert(ends.begin(), ends.end());
    }
    const auto add = [&](unsigned node, std::optional<unsigned> rail) {
        std::vector<double> slow;
        for (std::size_t i = 0; i < results.size(); ++i) {
            const auto& [a, b, rail_a, rail_b] = judging.report.results[results[i]].pairing;
            const bool here =
                (a == node && rail_a == rail.value_or(rail_a)) || (b == node && rail_b == rail.value_or(rail_b));
            if (here && observations[i].bad) {
                slow.push_back(values[i]);
            }
        }
        const auto pairs = static_cast<unsigned>(slow.size());
        const double latency = quantile(std::move(slow), 0.5).value_or(0);
        const std::string where =
            pair_node_name(judging.report, node) + (rail ? " " + pair_rail_name(judging.report, node, *rail) : "");
        judging.add({PairsFaultKind::Latency, {node}, rail, words(judging, where, latency, pairs)}, -latency);
    };
    for (const BlamedNode& node : by_node(ports, blamed, seen)) {
        if (node.rails.empty()) {
            add(node.node, {});
        }
        for (const unsigned rail : node.rails) {
            add(node.node, rail);
        }
    }
    std::set<std::uint32_t> left;
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (observations[i].bad && !observations[i].explained) {
            left.insert(results[i]);
        }
    }
    add_pairs(judging, left);
}

} // namespace rdma_nccl
