// SPDX-License-Identifier: Apache-2.0
// Places a node's ranks, using the facts read from the node and the plan for its fabric, and describes them.
#pragma once

#include "lib/placement/placement.h"
#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "lib/sys/resources.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A task that may see other GPUs than its neighbours: Slurm gives it its own variables, including SLURM_STEP_GPUS.
struct TaskView {
    unsigned local_rank = 0;
    const Environment& environment;
    VisibleGpus gpus;
    /// Positions of the GPUs whose device files the task may open. Under Slurm's device cgroup every task that sees one
    /// GPU has CUDA_VISIBLE_DEVICES=0 and SLURM_STEP_GPUS=0, whichever GPU that is (22.05, 24.11).
    std::vector<std::size_t> openable;
};
/// Returns the view of the calling process. Uses the node's `facts` where the task's environment lists no GPUs.
TaskView view_of_task(unsigned local_rank, const Environment& environment, const NodeFacts& facts);

/// A Placement, and the devices that its numbers refer to.
struct NodePlacement {
    Placement placement;
    std::vector<std::string> gpu_ids;             ///< as CUDA_VISIBLE_DEVICES names them
    std::vector<std::optional<std::size_t>> gpus; ///< their positions in Fabric::gpus
    std::vector<std::string> ports;               ///< "mlx5_1:1", the used ones
    std::vector<CpuSet> masks;                    ///< input of the placement, by local rank
    std::string order_variable;                   ///< the variable that sets the order of the GPUs
    bool binds_cpus = false;
    bool binds_memory = false;
    std::optional<std::size_t> seen_gpus; ///< how many of the GPUs the asking task sees, if not all
    std::size_t own = 0;                  ///< position of the asking task in placement.ranks

    /// The ports of a rank, nearest first: "mlx5_1:1,mlx5_2:1".
    [[nodiscard]] std::string ports_of(const RankPlacement& rank) const;
};

/// `masks`: the CPUs that Slurm gave, by local rank; an empty mask is unknown. `own`: the asking task, if it is one.
/// Without a topology (hwloc is missing) binds nothing, but still knows the HCAs' distances by PCI.
NodePlacement place_ranks(const NodeFacts& facts, const Plan& plan, BindChoice bind, const Topology& topology,
                          std::vector<CpuSet> masks, const std::optional<TaskView>& own = {});

/// Returns the CPUs and the memory node to bind a rank to. Binds no CPUs if there are fewer of them than ranks.
Binding binding_of(const NodePlacement& node, std::size_t rank);

/// Sets the variables of a rank's placement (with `seen_gpus`: from the asking task's): UCX_NET_DEVICES and
/// NVSHMEM_HCA_LIST, nearest first, OMP_NUM_THREADS, JAX_LOCAL_DEVICE_IDS, CUDA_VISIBLE_DEVICES if the order changes.
void add_placement(VariableList& variables, const NodePlacement& node, const TaskFacts& task, const Plan& plan);

/// Returns advice for a task that sees only some of its node's GPUs, or nullopt if it sees all. `local_tasks`: number
/// of tasks on the node.
std::optional<std::string> judge_isolation(const NodeFacts& facts, const VisibleGpus& seen, unsigned local_tasks);

/// Explains why many ranks share few CPUs although the job has more: srun does not inherit --cpus-per-task (since Slurm
/// 22.05). Returns nullopt if that is not the case.
std::optional<std::string> judge_cpus(const Environment& environment, std::size_t ranks, std::size_t cpus);

/// Returns "GPU 3 (0000:73:00.0), CPUs 12-15 (4 cores), memory of NUMA node 0, mlx5_4:1 first (one PCIe switch)".
std::string rank_text(const NodePlacement& node, const Fabric& fabric, const RankPlacement& rank);

/// Returns one line for each rank of the node: "local rank 3: GPU 3 ...".
std::vector<std::string> placement_lines(const NodePlacement& node, const Fabric& fabric);

/// Returns, in a few words, why the ranks have their CPUs.
std::string binding_why(const NodePlacement& node);

/// Convert masks to the value of RDMA_NCCL_CPUS and back. Reading fails unless the text has `ranks` valid masks.
std::string write_masks(const std::vector<CpuSet>& masks);
std::optional<std::vector<CpuSet>> read_masks(std::string_view text, std::size_t ranks);

} // namespace rdma_nccl
