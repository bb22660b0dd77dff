// SPDX-License-Identifier: Apache-2.0
// From whom a process descends, by /proc.
#pragma once

#include "lib/root.h"

#include <optional>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// The parent first, as far as /proc shows them: up to process 1, or to one that is hidden (hidepid, proc(5)).
std::vector<pid_t> ancestors_of(const Root& root, pid_t pid);

/// The process that a thread belongs to; of a process, itself. nullopt: there is none (any more), or it is hidden.
std::optional<pid_t> process_of(const Root& root, pid_t thread);

/// The slurmstepd below which this process runs: that of a step, or of a batch script. nullopt: there is none.
std::optional<pid_t> step_daemon_above(const Root& root, pid_t pid);

} // namespace rdma_nccl
