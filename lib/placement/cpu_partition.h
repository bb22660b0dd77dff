// SPDX-License-Identifier: Apache-2.0
// Divides a common set of CPUs among several ranks: disjoint shares of whole cores, near each rank's GPU.
#pragma once

#include "lib/topology/distance.h"
#include "lib/topology/topology.h"

#include <optional>
#include <span>
#include <vector>

namespace rdma_nccl {

/// The devices that a rank should be near. Without either, any CPU is as good as another.
struct RankDevices {
    std::optional<Place> gpu;
    std::optional<Place> hca; ///< breaks the tie between places that are equally near the GPU
};

/// Returns the CPUs of each rank, taken from `common`. Each rank gets at least one core, or one hardware thread when
/// there are fewer cores than ranks. A rank takes cores away from its GPU only until it has two in total, or one where
/// that is its fair share. Returns an empty list when there are no ranks, or fewer CPUs than ranks.
std::vector<CpuSet> share_cpus(const Topology& topology, const CpuSet& common, std::span<const RankDevices> ranks);

} // namespace rdma_nccl
