// SPDX-License-Identifier: Apache-2.0
// Placement in slurmstepd and its tasks: what is prepared for all tasks, and what each task does for itself.
#pragma once

#include "lib/plan/node_placement.h"
#include "plugin/stepd.h"

#include <optional>

namespace rdma_nccl {

/// user_init, once the layout is settled: reads the topology if ranks are tasks.
void prepare_placement(NodeState& state, const SpankHandle& host);

/// task_init. Returns the placement of the node's ranks as this task sees it, or nullopt outside rank layout.
std::optional<NodePlacement> place_task(const NodeState& state, const TaskFacts& task, const Environment& now);

/// Binds the task and reports a failure.
void bind_task(const NodeState& state, const TaskFacts& task, const NodePlacement& placed);

/// Returns the warnings about the tasks' CPUs and GPUs. Called once per step, by its task 0.
std::vector<std::string> judge_placement(const NodeState& state, const TaskFacts& task, const Environment& now,
                                         const std::optional<NodePlacement>& placed);

} // namespace rdma_nccl
