// SPDX-License-Identifier: Apache-2.0
// Which GPUs a process on this node can use, told without CUDA or ROCm: LOCAL_RANK i drives the i-th of them.
#pragma once

#include "lib/environment.h"

#include <cstddef>
#include <functional>
#include <optional>
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

} // namespace rdma_nccl
