// SPDX-License-Identifier: Apache-2.0
// The nodes of a job or step, and the tasks that srun would start on each, for commands that run inside of it.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct JobHosts {
    std::vector<std::string> nodes; ///< as Slurm orders them; at least one
    std::vector<unsigned> tasks;    ///< on each; 1 or more
    bool of_step = false;           ///< of the step that this process is a task of
};

/// Returns those of the step that this process is a task of, else of its job: in a batch script, and in a shell of
/// salloc, whose interactive step is on one node alone. A job that did not ask for tasks has one on each node:
/// SLURM_TASKS_PER_NODE then counts CPUs (Slurm's src/common/env.c). Fails outside of a job, in a heterogeneous one,
/// which has several lists, and if the variables are malformed.
Result<JobHosts> job_hosts(const Environment& environment);

} // namespace rdma_nccl
