// SPDX-License-Identifier: Apache-2.0
// Which of the node's GPUs the entries of CUDA_VISIBLE_DEVICES and its like stand for.
#pragma once

#include "lib/environment.h"
#include "lib/fabric.h"
#include "lib/gpu_list.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace rdma_nccl {

/// How a step's indices count.
enum class GpuNumbering {
    Global, ///< over all GPUs of the node, by PCI address
    Local,  ///< over those that Slurm's device cgroup shows (ConstrainDevices): 0, 1, ... whatever GPUs they are
};

/// From the step's own list: local where its indices are not those that Slurm granted (SLURM_STEP_GPUS).
GpuNumbering find_numbering(const VisibleGpus& visible, const Environment& environment);

/// The position in `gpus` of each visible GPU; nullopt where that cannot be told without asking a driver (a MIG UUID on
/// a node of several GPUs, a number that is too high). UUIDs may be abbreviated, as for CUDA.
std::vector<std::optional<std::size_t>> match_gpus(const VisibleGpus& visible, const Environment& environment,
                                                   GpuNumbering numbering, std::span<const Gpu> gpus);

/// The positions of the GPUs that this process may open, by the mode of the device file and the device cgroup.
std::vector<std::size_t> openable_gpus(std::span<const Gpu> gpus);

} // namespace rdma_nccl
