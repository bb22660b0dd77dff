// SPDX-License-Identifier: Apache-2.0
// The plugin in srun, sbatch and salloc: it runs as the user, refuses bad settings before anything is queued, and in
// srun leaves a note for the nodes.
#pragma once

#include "plugin/configuration.h"
#include "plugin/host.h"

namespace rdma_nccl {

/// Option callback: 0, or -1 with the fault told, which makes srun and sbatch end. `help` prints the keys and ends the
/// process.
int client_option(Configuration& configuration, const char* argument);

/// init_post_opt: faults of the environment's settings are told here when the option was not given, but the site has us
/// on.
int client_check(const Configuration& configuration);

/// local_user_init, srun only: the note about head node, its address and a port.
int client_leave_note(const Configuration& configuration, const Host& host);

} // namespace rdma_nccl
