// SPDX-License-Identifier: Apache-2.0
// Placement in slurmstepd and its tasks: what is prepared for all of them, and what each task does for itself.
#pragma once

#include "lib/node_placement.h"
#include "plugin/node.h"

#include <optional>

namespace rdma_nccl {

/// user_init, once the layout is settled: reads the topology, where ranks are tasks.
void prepare_placement(NodeState& state, const Host& host);

/// task_init: where this task's rank belongs; nullopt outside of rank layout.
std::optional<NodePlacement> place_task(const NodeState& state, const TaskFacts& task, const Environment& now);

/// Binds the task, and tells what could not be done.
void bind_task(const NodeState& state, const TaskFacts& task, const NodePlacement& placed);

/// What to say of the tasks' CPUs and GPUs, once for the step; from its task 0.
std::vector<std::string> judge_placement(const NodeState& state, const TaskFacts& task, const Environment& now,
                                         const std::optional<NodePlacement>& placed);

} // namespace rdma_nccl
