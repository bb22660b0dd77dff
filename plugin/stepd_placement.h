// SPDX-License-Identifier: Apache-2.0
// Placement in slurmstepd and its tasks: what is prepared for all tasks, and what each task does for itself.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/plan/node_placement.h"
#include "lib/plan/plan.h"
#include "plugin/spank.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace rdma_nccl {

struct NodeState;

/// The CPUs that Slurm gave each task of the node. slurmstepd binds the tasks one after the other, before any of them
/// goes on. Shared memory makes the masks that it saw available to all tasks.
class TaskMasks {
public:
    /// Call before the tasks are forked. Returns nullopt if there is no memory or no task.
    static std::optional<TaskMasks> create(std::size_t tasks);

    /// Call in slurmstepd, once the task is bound.
    void record(std::size_t local_id, pid_t pid);
    /// Call in a task. Returns the masks by local id; a mask that was not recorded is empty.
    [[nodiscard]] std::vector<CpuSet> all() const;

private:
    struct Unmap {
        std::size_t bytes = 0;
        void operator()(std::uint64_t* words) const;
    };
    using Memory = std::unique_ptr<std::uint64_t[], Unmap>;

    static constexpr std::size_t words_per_task = most_cpus / 64;
    TaskMasks(Memory memory, std::size_t tasks) : memory_(std::move(memory)), tasks_(tasks) {}

    Memory memory_;
    std::size_t tasks_;
};

/// user_init, once the layout is known: reads the topology if ranks are tasks.
void prepare_placement(NodeState& state, const SpankHandle& host);

/// task_init. Returns the placement of the node's ranks as this task sees it, or nullopt outside rank layout.
std::optional<NodePlacement> place_task(const NodeState& state, const TaskFacts& task, const Environment& now);

/// Binds the task and reports a failure.
void bind_task(const NodeState& state, const TaskFacts& task, const NodePlacement& placed);

/// Returns the warnings about the tasks' CPUs and GPUs. Called once per step, by its task 0.
std::vector<std::string> judge_placement(const NodeState& state, const TaskFacts& task, const Environment& now,
                                         const std::optional<NodePlacement>& placed);

} // namespace rdma_nccl
