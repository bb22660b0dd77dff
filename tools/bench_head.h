// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench_options.h"
#include "tools/bench_values.h"
#include "tools/measure_control.h"
#include "tools/pairs_progress.h"

namespace rdma_nccl {

/// Of the head: waits for the members, leads all runs, and tells what came of them; also when it was interrupted. A
/// report without runs says in `ended_early` why there are none.
BenchReport lead_bench(MeasureHead& head, const MeasureWorld& world, const BenchOptions& options,
                       PairsProgress& progress);

} // namespace rdma_nccl
