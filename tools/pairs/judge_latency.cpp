// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "tools/pairs/fault_messages.h"
#include "tools/pairs/judge_internal.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

/// Returns results that are not yet at fault.
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

} // namespace

void judge_latency(PairsJudging& judging) {
    const auto results = good_with_latency(judging);
    std::vector<double> values;
    values.reserve(results.size());
    for (const std::uint32_t index : results) {
        values.push_back(judging.report.results[index].latency->median_us);
    }
    // Of two values, the lower one is normal.
    const double normal = values.size() == 2 ? *quantile(values, 0) : quantile(values, 0.5).value_or(0);
    ObservedResults observed(judging);
    bool any = false;
    for (std::size_t i = 0; i < results.size(); ++i) {
        const bool bad = normal > 0 && values[i] > judging.rules.latency_factor * normal;
        any |= bad;
        observed.add(results[i], bad);
        if (bad) {
            judging.verdict.results[results[i]] = PairState::Slow;
        }
    }
    if (!any) {
        return;
    }
    judging.verdict.median_latency_us = normal;
    const auto accuse_end = [&](unsigned node, std::optional<unsigned> rail) {
        std::vector<double> slow;
        for (std::size_t i = 0; i < results.size(); ++i) {
            if (observed.is_bad(i) && takes_part(judging.report.results[results[i]].pairing, node, rail)) {
                slow.push_back(values[i]);
            }
        }
        const auto pairs = static_cast<unsigned>(slow.size());
        const double latency = quantile(std::move(slow), 0.5).value_or(0);
        const auto where = pair_end_name(judging.report, node, rail);
        judging.add({PairsFaultKind::Latency, {node}, rail, words(judging, where, latency, pairs)}, -latency);
    };
    const auto accuse_pair = [&](const std::vector<std::uint32_t>& of_pair, bool with_rails) {
        const PairResult& result = judging.report.results[of_pair.front()];
        const double latency = result.latency->median_us;
        const auto where = pair_link_name(judging.report, result.pairing, with_rails);
        const auto count = static_cast<unsigned>(of_pair.size());
        judging.add(
            pair_fault(PairsFaultKind::Latency, result.pairing, with_rails, words(judging, where, latency, count)),
            -latency);
    };
    observed.accuse(accuse_end, accuse_pair);
}

} // namespace rdma_nccl
