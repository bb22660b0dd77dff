// SPDX-License-Identifier: Apache-2.0
// Finds the GPUs that a process on this node can use, without CUDA or ROCm: LOCAL_RANK i drives the i-th of them.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/sys/environment.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

struct VisibleGpus {
    /// The names in the source: index, UUID or MIG UUID; "0", "1", ... when only their number is known.
    std::vector<std::string> ids;
    std::string source; ///< the source, for messages: `CUDA_VISIBLE_DEVICES="0,1"`
    std::string note;   ///< which entries do not count, and why; empty when all count

    [[nodiscard]] unsigned count() const { return static_cast<unsigned>(ids.size()); }
};

/// Finds the visible GPUs from the first source that is set: CUDA_VISIBLE_DEVICES; HIP_VISIBLE_DEVICES;
/// ROCR_VISIBLE_DEVICES; the GPUs that Slurm granted (SLURM_STEP_GPUS, SLURM_JOB_GPUS, SLURM_GPUS_ON_NODE); the number
/// of the node's GPUs from `count_node_gpus`, which is called only then. An empty variable of CUDA or ROCm counts as
/// set: no GPU. Indices are not checked against the number of GPUs, which a copied or emulated node does not tell.
VisibleGpus find_visible_gpus(const Environment& environment, const std::function<std::size_t()>& count_node_gpus);

/// Returns the GPUs that Slurm granted on this node, by Slurm's numbers (SLURM_STEP_GPUS, SLURM_JOB_GPUS), or nullopt.
std::optional<std::vector<unsigned>> granted_gpus(const Environment& environment);

// Which of the node's GPUs the entries of CUDA_VISIBLE_DEVICES and similar variables mean.

/// What a step's indices count.
enum class GpuNumbering {
    Global, ///< all GPUs of the node, by PCI address
    Local,  ///< the GPUs that Slurm's device cgroup shows (ConstrainDevices), always 0, 1, ...
};

/// Determines the numbering from the visible GPUs: local if their indices are not those that Slurm granted
/// (SLURM_STEP_GPUS, SLURM_JOB_GPUS), else global.
GpuNumbering find_numbering(const VisibleGpus& visible, const Environment& environment);

/// Returns the position of each visible GPU in `gpus`; nullopt if it cannot be known without asking a driver (a MIG
/// UUID on a node with several GPUs), or the number is too high. UUIDs may be abbreviated, as for CUDA.
std::vector<std::optional<std::size_t>> match_gpus(const VisibleGpus& visible, const Environment& environment,
                                                   GpuNumbering numbering, std::span<const Gpu> gpus);

/// Returns the positions of the GPUs that this process may open according to the device file's mode and the device
/// cgroup.
std::vector<std::size_t> openable_gpus(std::span<const Gpu> gpus);

} // namespace rdma_nccl
