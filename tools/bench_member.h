// SPDX-License-Identifier: Apache-2.0
// A member of the benchmark: has what ranks need, starts them when the head says so, passes on what they say, and
// watches its node's counters meanwhile.
#pragma once

#include "tools/bench_options.h"
#include "tools/measure_world.h"

#include <nlohmann/json_fwd.hpp>

namespace rdma_nccl {

// The head's orders, each with the number of its run:
//   {"do": "start", ...}                         bench_order.h
//   {"do": "go", "run": 3, "rank": 0, "go": {...}}   for a rank, behind its offer
//   {"do": "stop", "run": 3}
//   {"do": "evidence", "run": 3}
//   {"do": "end"}
// and the answers:
//   {"run": 3, "rank": 0, "says": {...}}         bench_channel.h; "at" of rank 0 alone
//   {"run": 3, "refused": "..."}                 an order to start; no rank was
//   {"run": 3, "rank": 0, "ended": "", "at": "..."}   `ended`: why, empty when it ended well
//   {"run": 3, "evidence": "..."}                lib/exchange_message.h

/// Until the head ends it. The exit code.
int take_part_in_bench(const MeasureWorld& world, const BenchOptions& options);

} // namespace rdma_nccl
