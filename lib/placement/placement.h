// SPDX-License-Identifier: Apache-2.0
// Places each rank of a node near its GPU and its HCA. A pure function of its input.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/fabric/fabric.h"
#include "lib/sys/environment.h"
#include "lib/topology/topology.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Positions in a list of GPUs.
using GpuNumbers = std::vector<std::size_t>;

struct PlacementFacts {
    const Topology& topology;
    std::vector<Place> gpus; ///< visible to the ranks, in the order of LOCAL_RANK
    std::vector<Place> hcas; ///< one per used port
    /// The CPUs that Slurm gave each rank's task. Ranks that one task starts have the same CPUs.
    std::vector<CpuSet> masks;
    /// The GPUs of each rank if it sees only those. Empty: all ranks see all GPUs, and rank i uses the i-th.
    std::vector<GpuNumbers> own_gpus;
    bool may_reorder = false; ///< nobody chose the order of the GPUs, and it can still change
    bool may_share = true;    ///< ranks with the same CPUs may each get a part
    /// GPUs that other jobs may use at the same time: leave room for a rank at each.
    std::vector<Place> others = {};
};

/// The source of a rank's CPUs.
enum class CpuSource {
    Slurm,  ///< its own CPUs, unchanged
    Shared, ///< its part of CPUs that it had in common with other ranks
    Scarce, ///< fewer CPUs than ranks: they stay in common
};

struct RankPlacement {
    GpuNumbers gpus; ///< it uses the first one; empty without GPUs
    CpuSet cpus;
    CpuSource source = CpuSource::Slurm;
    std::size_t cores = 0;               ///< physical cores in `cpus`
    std::optional<unsigned> memory_node; ///< NUMA node to prefer; absent: none
    Distance gpu_to_cpus = Distance::Unknown;
    std::vector<std::size_t> hcas;       ///< nearest first
    Distance to_hca = Distance::Unknown; ///< from its GPU (without one, its CPUs) to the first HCA

    /// Returns one thread per core, less one core for NCCL's proxy thread if there are four or more.
    [[nodiscard]] std::size_t threads() const;
};

struct Placement {
    std::vector<RankPlacement> ranks; ///< by local rank
    DistanceTable gpu_to_hca;         ///< of all visible GPUs
    bool nearness_known = false;      ///< false: every HCA is equally near to every GPU
    /// The order of the GPUs in which each LOCAL_RANK's GPU is the near one; empty: no change.
    GpuNumbers gpu_order;
    std::vector<std::string> warnings;
    std::vector<std::string> notes;
};

Placement plan_placement(const PlacementFacts& facts);

/// Returns the sum of the distances from each rank i's CPUs to GPU `order[i]`. A new order must lower it.
unsigned count_distance(const PlacementFacts& facts, const GpuNumbers& order);

// The two parts of the plan that are a problem of their own.

/// The devices that a rank should be near. Without either, any CPU is as good as another.
struct RankDevices {
    std::optional<Place> gpu;
    std::optional<Place> hca; ///< breaks the tie between places that are equally near the GPU
};

/// Returns the CPUs of each rank, taken from `common`: disjoint shares of whole cores, near each rank's GPU. Each rank
/// gets at least one core, or one hardware thread when there are fewer cores than ranks. A rank takes cores away from
/// its GPU only until it has two in total, or one where that is its fair share. Returns an empty list when there are no
/// ranks, or fewer CPUs than ranks.
std::vector<CpuSet> share_cpus(const Topology& topology, const CpuSet& common, std::span<const RankDevices> ranks);

/// Decides which GPU each rank drives when Slurm has given the ranks CPUs of their own: LOCAL_RANK i drives the i-th
/// visible GPU, so the order of the GPUs must follow the CPUs. costs[i][j] is the cost of rank i on GPU j; all rows
/// have the same length, and there are at least as many GPUs as ranks. Returns a different GPU for each rank, with the
/// least total cost; on ties, ranks keep the GPU of their own number. Uses the Hungarian method, which is cubic in the
/// number of GPUs.
GpuNumbers assign_gpus(const std::vector<std::vector<unsigned>>& costs);

// The GPUs that a process on this node can use, found without CUDA or ROCm: LOCAL_RANK i drives the i-th of them.

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

// Which of the node's GPUs the entries of CUDA_VISIBLE_DEVICES and similar variables mean. The GPUs are in the order in
// which CUDA or HIP counts them (Fabric::gpus).

/// What a step's indices count.
enum class GpuNumbering {
    Global, ///< all GPUs of the node
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
