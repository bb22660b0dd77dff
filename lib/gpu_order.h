// SPDX-License-Identifier: Apache-2.0
// Which GPU each rank drives where Slurm has given the ranks CPUs of their own: LOCAL_RANK i drives the i-th GPU that
// is visible, so the order of the GPUs follows the CPUs.
#pragma once

#include <cstddef>
#include <vector>

namespace rdma_nccl {

/// costs[i][j]: of rank i on GPU j; all rows of one length, at least as many GPUs as ranks. Returns the GPU of each
/// rank, all different, with the least sum; where several ways cost the same, ranks keep the GPU of their own number.
/// The Hungarian method, cubic in the number of GPUs.
std::vector<std::size_t> assign_gpus(const std::vector<std::vector<unsigned>>& costs);

} // namespace rdma_nccl
