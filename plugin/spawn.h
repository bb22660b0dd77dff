// SPDX-License-Identifier: Apache-2.0
// spawn=on: puts `rdma-nccl run` in front of the user's program.
#pragma once

#include "lib/plan/plan.h"
#include "lib/sys/environment.h"
#include "plugin/spank.h"

#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

inline constexpr std::string_view spawn_needs_newer_slurm =
    "spawn=on needs Slurm 23.11 or newer (spank_prepend_task_argv); type instead: srun --rdma-nccl ... rdma-nccl run "
    "PROGRAM";

std::string too_many_tasks_to_spawn(unsigned tasks, unsigned nodes);

/// task_init: puts `rdma-nccl run` in front of the program. On failure returns why the task must not run: it would be
/// one rank instead of one per GPU. Uses the command that was installed with the plugin, else the first one in the
/// task's PATH; the task sees its container's files here.
std::optional<std::string> spawn_ranks(const TaskFacts& task, const Environment& now, SpankHandle& host);

} // namespace rdma_nccl
