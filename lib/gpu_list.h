// SPDX-License-Identifier: Apache-2.0
// Which GPUs a process on this node can use, told without CUDA or ROCm: LOCAL_RANK i drives the i-th of them.
#pragma once

#include "lib/environment.h"
#include "lib/fabric.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

struct VisibleGpus {
    /// As the source names them: index, UUID or MIG UUID; "0", "1", ... where only their number is known.
    std::vector<std::string> ids;
    std::string source; ///< what told, for messages: `CUDA_VISIBLE_DEVICES="0,1"`
    std::string note;   ///< entries that do not count and why, in words; empty when all count
};

/// The first of these that is set tells: CUDA_VISIBLE_DEVICES; HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES; the GPUs that
/// Slurm granted (SLURM_STEP_GPUS, SLURM_JOB_GPUS, SLURM_GPUS_ON_NODE); the GPUs of this node, whose number
/// `count_node_gpus` gives (called only then). Set but empty counts as set for the variables of CUDA and ROCm: no GPU.
/// An index is not compared with the number of GPUs there are, which a copied or emulated node does not tell.
VisibleGpus find_visible_gpus(const Environment& environment, const std::function<std::size_t()>& count_node_gpus);

/// The GPUs that Slurm granted on this node, by Slurm's numbers (SLURM_STEP_GPUS, SLURM_JOB_GPUS); nullopt without.
std::optional<std::vector<unsigned>> granted_gpus(const Environment& environment);

// Which of the node's GPUs the entries of CUDA_VISIBLE_DEVICES and its like stand for.

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
