// SPDX-License-Identifier: Apache-2.0
// srun's exit status, which SPANK does not show: slurm_spank_exit is called behind main(), by atexit (srun_job.c).
#pragma once

#include <optional>

namespace rdma_nccl {

/// From now on exit() leaves its status here before it calls slurm_spank_exit. The plugin stays loaded until then.
void watch_exit_status();

/// What the process has called exit() with; absent as long as it has not, or when nobody watches.
std::optional<int> exit_status();

/// In slurm_spank_exit: ends the process with another status. Nothing runs after it but what has to be written is.
[[noreturn]] void exit_instead(int status);

} // namespace rdma_nccl
