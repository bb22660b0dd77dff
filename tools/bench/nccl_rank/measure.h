// SPDX-License-Identifier: Apache-2.0
// The measurement, done as in nccl-tests (BenchTime() in src/common.cu there): the time of a batch of consecutive calls
// in the stream, divided by their number, averaged over the ranks.
#pragma once

#include "tools/bench/nccl_rank/nccl.h"
#include "tools/bench/rank/model.h"
#include "tools/bench/rank/order.h"

#include <functional>
#include <string_view>

namespace rdma_nccl {

struct MeasureReport {
    std::function<void(std::string_view)> at; ///< the current activity: at its start, and again while it makes progress
    std::function<void(const BenchRow&)> row; ///< the result of one size; the same on all ranks
    /// A failure. It should end the process: freeing GPU memory may wait for ranks that are gone.
    std::function<void(const NcclFailure&)> failed;
};

/// Called by all ranks with the same work. Returns after all of it, or after reporting the first failure.
void measure_all(const Communicator& communicator, const BenchWork& work, const MeasureReport& report);

} // namespace rdma_nccl
