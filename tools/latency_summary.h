// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/pairs_values.h"

#include <vector>

namespace rdma_nccl {

/// Of half round trips in microseconds, in any order; percentiles by nearest rank. Empty: all zero.
PairLatency summarize_latencies(std::vector<float> half_round_trips_us);

} // namespace rdma_nccl
