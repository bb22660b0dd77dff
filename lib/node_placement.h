// SPDX-License-Identifier: Apache-2.0
// The placement of a node's ranks, from what was read of the node and decided on its fabric.
#pragma once

#include "lib/binding.h"
#include "lib/gpu_list.h"
#include "lib/inspect.h"
#include "lib/placement.h"
#include "lib/plan.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A task that may see other GPUs than its neighbours: Slurm gives it variables of its own, SLURM_STEP_GPUS too.
struct TaskView {
    unsigned local_rank = 0;
    const Environment& environment;
    VisibleGpus gpus;
    /// Positions of the GPUs whose device files it may open. Below Slurm's device cgroup every task that sees one GPU
    /// has CUDA_VISIBLE_DEVICES=0 and SLURM_STEP_GPUS=0, whatever GPU that is (22.05, 24.11).
    std::vector<std::size_t> openable;
};
/// Of the calling process. `facts`: of the node, for where the task's own environment does not tell.
TaskView view_of_task(unsigned local_rank, const Environment& environment, const NodeFacts& facts);

/// A Placement, and what its numbers stand for.
struct NodePlacement {
    Placement placement;
    std::vector<std::string> gpu_ids;             ///< as CUDA_VISIBLE_DEVICES names them
    std::vector<std::optional<std::size_t>> gpus; ///< their positions in Fabric::gpus
    std::vector<std::string> ports;               ///< "mlx5_1:1", the used ones
    std::vector<CpuSet> masks;                    ///< that the placement was made from, by local rank
    std::string order_variable;                   ///< the one that holds the order of the GPUs
    bool binds_cpus = false;
    bool binds_memory = false;
    std::optional<std::size_t> seen_gpus; ///< how many of them the task that asked sees, where not all
    std::size_t own = 0;                  ///< where in placement.ranks that task is

    /// The ports of a rank, nearest first: "mlx5_1:1,mlx5_2:1".
    [[nodiscard]] std::string ports_of(const RankPlacement& rank) const;
};

/// `masks`: by local rank, the CPUs that Slurm gave; an empty one is not known. `own`: the task that asks, where it is
/// one. Without a topology (hwloc is missing) nothing is bound, but HCAs still have their distances by PCI.
NodePlacement place_ranks(const NodeFacts& facts, const Plan& plan, BindChoice bind, const Topology& topology,
                          std::vector<CpuSet> masks, const std::optional<TaskView>& own = {});

/// What is to be bound of a rank; nothing where there are fewer CPUs than ranks, or it has its CPUs already.
Binding binding_of(const NodePlacement& node, std::size_t rank);

/// The variables of a rank (with `seen_gpus`: of the task that asked) that follow from its place: UCX_NET_DEVICES and
/// NVSHMEM_HCA_LIST nearest first, OMP_NUM_THREADS, JAX_LOCAL_DEVICE_IDS, and CUDA_VISIBLE_DEVICES where the order
/// changes.
void add_placement(VariableList& variables, const NodePlacement& node, const TaskFacts& task, const Plan& plan);

/// What to do about a task that sees only some of its node's GPUs; nullopt where it sees all. `local_tasks`: of the
/// node.
std::optional<std::string> judge_isolation(const NodeFacts& facts, const VisibleGpus& seen, unsigned local_tasks);

/// Why many ranks share few CPUs although the job has more: srun does not take over --cpus-per-task (since Slurm
/// 22.05). nullopt where that is not so.
std::optional<std::string> judge_cpus(const Environment& environment, std::size_t ranks, std::size_t cpus);

} // namespace rdma_nccl
