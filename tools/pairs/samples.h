// SPDX-License-Identifier: Apache-2.0
// The single bandwidths of a report, each with the normal value for its ports.
#pragma once

#include "tools/pairs/judge.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace rdma_nccl::pairs {

/// One direction of one result.
struct Sample {
    std::uint32_t result = 0; ///< index in the report
    std::uint32_t kind = 0;   ///< index in Samples::kinds
    unsigned from = 0, from_rail = 0, to = 0, to_rail = 0;
    double gbps = 0;
    double share = 0; ///< share of the normal value
};

/// Ports that should be equally fast: rails that have the same rate on most nodes. So a node whose link came up slower
/// than the same rail elsewhere is compared with what it should be, and a rail for storage with others like it.
struct PortKind {
    double rate_gbps = 0;   ///< the lower of the two rails' usual link rates; 0: unknown
    double normal_gbps = 0; ///< median without values far below
};

struct Samples {
    std::vector<Sample> samples;
    std::vector<PortKind> kinds;
    double deviation = 0;  ///< of the shares: 1.4826 MAD, without values far below
    bool software = false; ///< some rail uses software RDMA
};

/// Returns the indices of the results that count: the later one of a pairing measured twice, and none that refers to a
/// node or rail that the report does not have.
std::vector<std::uint32_t> results_that_count(const Report& report);

/// `results`: the indices to use. `share`: of normal_of().
Samples samples_of(const Report& report, const std::vector<std::uint32_t>& results, double share);

/// Returns the rate that the rail has on most nodes, the higher one in a tie; 0: unknown.
double usual_rate(const Report& report, unsigned rail);

/// Returns the normal one of these values: the median of those that are at least `share` of the upper quartile; 0
/// without values. Two slow nodes of six spoil most pairs, and the plain median with them, but the upper quartile holds
/// until half of the nodes are slow.
double normal_of(std::vector<double> values, double share);

/// Returns the element below which this part (0 to 1) of the values lies; of two in the middle, the upper one. Absent
/// if there are no values.
std::optional<double> quantile(std::vector<double> values, double part);
/// Returns the quantile at one half; 0 without values.
double median_of(std::vector<double> values);

} // namespace rdma_nccl::pairs
