// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/latency.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rdma_nccl {

PairLatency summarize_latencies(std::vector<float> half_round_trips_us) {
    auto& sorted = half_round_trips_us;
    if (sorted.empty()) {
        return {};
    }
    std::ranges::sort(sorted);
    const auto rank = [&](double share) {
        const auto number = std::ceil(share * static_cast<double>(sorted.size()));
        return static_cast<double>(sorted[static_cast<std::size_t>(std::max(number, 1.0)) - 1]);
    };
    return {.min_us = sorted.front(),
            .median_us = rank(0.5),
            .p99_us = rank(0.99),
            .p999_us = rank(0.999),
            .max_us = sorted.back(),
            .round_trips = sorted.size()};
}

} // namespace rdma_nccl
