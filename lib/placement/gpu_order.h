// SPDX-License-Identifier: Apache-2.0
// Decides which GPU each rank drives when Slurm has given the ranks CPUs of their own: LOCAL_RANK i drives the i-th
// visible GPU, so the order of the GPUs must follow the CPUs.
#pragma once

#include <cstddef>
#include <vector>

namespace rdma_nccl {

/// costs[i][j] is the cost of rank i on GPU j; all rows have the same length, and there are at least as many GPUs as
/// ranks. Returns a different GPU for each rank, with the least total cost; on ties, ranks keep the GPU of their own
/// number. Uses the Hungarian method, which is cubic in the number of GPUs.
std::vector<std::size_t> assign_gpus(const std::vector<std::vector<unsigned>>& costs);

} // namespace rdma_nccl
