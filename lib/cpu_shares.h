// SPDX-License-Identifier: Apache-2.0
// Shares the CPUs that several ranks have in common: whole cores, near to each rank's GPU, disjoint.
#pragma once

#include "lib/distance.h"
#include "lib/topology.h"

#include <optional>
#include <span>
#include <vector>

namespace rdma_nccl {

/// What a rank wants to be near to. Neither: any CPU is as good as another.
struct RankDevices {
    std::optional<Place> gpu;
    std::optional<Place> hca; ///< decides where several places are equally near to the GPU
};

/// CPUs for each rank, out of `common`; each rank at least one core, or one hardware thread where there are fewer cores
/// than ranks. A rank stays at its GPU when there is room: with two cores there, or one where that is its fair part of
/// all, it takes no farther ones. Empty when there are fewer CPUs than ranks.
std::vector<CpuSet> share_cpus(const Topology& topology, const CpuSet& common, std::span<const RankDevices> ranks);

} // namespace rdma_nccl
