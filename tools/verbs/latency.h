// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace rdma_nccl {

/// Half a round trip of a small write, in microseconds.
struct PairLatency {
    double min_us = 0, median_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
    std::uint64_t round_trips = 0;

    friend bool operator==(const PairLatency&, const PairLatency&) = default;
};

/// Summarizes half round trips in microseconds, in any order; percentiles by nearest rank. All zero for no values.
PairLatency summarize_latencies(std::vector<float> half_round_trips_us);

} // namespace rdma_nccl
