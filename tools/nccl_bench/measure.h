// SPDX-License-Identifier: Apache-2.0
// The measurement itself, as nccl-tests do it (BenchTime() in src/common.cu there): the time of a batch of calls that
// follow each other in the stream, divided by their number, averaged over the ranks.
#pragma once

#include "tools/bench_values.h"
#include "tools/bench_work.h"
#include "tools/nccl_bench/communicator.h"

#include <functional>
#include <string_view>

namespace rdma_nccl {

struct MeasureReport {
    std::function<void(std::string_view)> at; ///< what begins now, and again while it goes on
    std::function<void(const BenchRow&)> row; ///< what came of a size; the same for all ranks
    /// What failed. To end the process: to free the GPU's memory may wait for ranks that are gone.
    std::function<void(const NcclFailure&)> failed;
};

/// All ranks call it with the same work. The end of it, or the first failure, is reported.
void measure_all(const Communicator& communicator, const BenchWork& work, const MeasureReport& report);

} // namespace rdma_nccl
