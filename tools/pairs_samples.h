// SPDX-License-Identifier: Apache-2.0
// The bandwidths of a report one by one, each with what is normal for its ports.
#pragma once

#include "tools/pairs_judge.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace rdma_nccl {

/// One direction of one result.
struct PairSample {
    std::uint32_t result = 0; ///< index in the report
    std::uint32_t kind = 0;   ///< index in PairSamples::kinds
    unsigned from = 0, from_rail = 0, to = 0, to_rail = 0;
    double gbps = 0;
    double share = 0; ///< of what is normal
};

/// Ports that should be equally fast: rails that have the same rate on most nodes. A node whose link came up slower
/// than the same rail elsewhere is thus compared with what it should be; a rail for storage with others like it.
struct PairKind {
    double rate_gbps = 0; ///< the lower of the two rails' usual link rates; 0: unknown
    bool loopback = false;
    double normal_gbps = 0; ///< median without what is far below
};

struct PairSamples {
    std::vector<PairSample> samples;
    std::vector<PairKind> kinds;
    double deviation = 0;  ///< of the shares: 1.4826 MAD, without what is far below
    bool software = false; ///< a rail is one of software RDMA
};

/// The results that count: of a pairing measured twice the later one, of none the ones with indices that the report has
/// no node or rail for.
std::vector<std::uint32_t> results_that_count(const PairsReport& report);

/// `results`: the indices to look at. What is normal comes from samples that are at least `share` of the upper
/// quartile: two slow nodes of six spoil most pairs, and the plain median with them; the upper quartile stays until
/// half of the nodes are slow.
PairSamples pair_samples(const PairsReport& report, const std::vector<std::uint32_t>& results, double share);

/// The rate that rail has on most nodes, the higher one when undecided; 0: unknown.
double usual_rate(const PairsReport& report, unsigned rail);

/// The element below which so much of the values (0 to 1) lies; of two in the middle the upper one. Absent: no values.
std::optional<double> quantile(std::vector<double> values, double part);

/// Of half round trips in microseconds, in any order; percentiles by nearest rank. Empty: all zero.
PairLatency summarize_latencies(std::vector<float> half_round_trips_us);

} // namespace rdma_nccl
