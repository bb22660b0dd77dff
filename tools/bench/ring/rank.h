// SPDX-License-Identifier: Apache-2.0
// A rank of `rdma-nccl bench --host`: all-reduce of floats around a ring of nodes, in host memory. It talks to its
// member as a rank on a GPU does (tools/bench/rank/channel.h).
#pragma once

namespace rdma_nccl {

/// Runs the rank. Returns the exit code: 0, or 1 after a failure.
int run_ring_rank();

} // namespace rdma_nccl
