// SPDX-License-Identifier: Apache-2.0
// Each rank of a node beside its GPU and its HCA (doc/design.md, Placement): a pure function.
#pragma once

#include "lib/cpu_set.h"
#include "lib/distance.h"
#include "lib/settings.h"
#include "lib/topology.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Positions in a list of GPUs.
using GpuNumbers = std::vector<std::size_t>;

struct PlacementFacts {
    const Topology& topology;
    std::vector<Place> gpus; ///< visible to the ranks, in the order that LOCAL_RANK counts them
    std::vector<Place> hcas; ///< one per used port
    /// The CPUs of each rank, as Slurm gave them to its task; ranks that one task starts have the same.
    std::vector<CpuSet> masks;
    /// The GPUs of each rank where it sees no others. Empty: all ranks see all, and rank i drives the i-th.
    std::vector<GpuNumbers> own_gpus;
    bool may_reorder = false; ///< the order of the GPUs is nobody's choice, and can still be changed
    bool may_share = true;    ///< ranks with the same CPUs get a part each
    /// GPUs that others may use at the same time: room is left for a rank at each.
    std::vector<Place> others = {};
};

/// How a rank came to its CPUs.
enum class CpuSource {
    Slurm,  ///< its own ones, kept
    Shared, ///< its part of what it had in common with others
    Scarce, ///< fewer CPUs than ranks: all of them stay in common
};

struct RankPlacement {
    GpuNumbers gpus; ///< the first is the one that it drives; empty without GPUs
    CpuSet cpus;
    CpuSource source = CpuSource::Slurm;
    std::size_t cores = 0;               ///< physical ones in `cpus`
    std::optional<unsigned> memory_node; ///< NUMA node to prefer; absent: none
    Distance gpu_to_cpus = Distance::Unknown;
    std::vector<std::size_t> hcas;       ///< nearest first
    Distance to_hca = Distance::Unknown; ///< from its GPU, or its CPUs where it has none, to the first of them

    /// One per core, and one core left for NCCL's proxy thread where there are four or more.
    [[nodiscard]] std::size_t threads() const;
};

struct Placement {
    std::vector<RankPlacement> ranks; ///< by local rank
    DistanceTable gpu_to_hca;         ///< of all visible GPUs
    bool tells_nearness = false;      ///< false: all HCAs are alike to all GPUs
    /// The GPUs in the order that makes LOCAL_RANK's the near one; empty: as it is.
    GpuNumbers gpu_order;
    std::vector<std::string> warnings;
    std::vector<std::string> notes;
};

Placement plan_placement(const PlacementFacts& facts);

/// The sum of the distances from each rank's CPUs to GPU `order[i]`: what a change of the order must lower.
unsigned count_distance(const PlacementFacts& facts, const GpuNumbers& order);

} // namespace rdma_nccl
