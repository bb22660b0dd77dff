// SPDX-License-Identifier: Apache-2.0
// The plugin in srun, sbatch and salloc: it runs as the user, refuses bad settings before anything is queued, and in
// srun leaves a note for the nodes.
#pragma once

#include "lib/exchange_server.h"
#include "plugin/configuration.h"
#include "plugin/host.h"

#include <cstdint>
#include <optional>

namespace rdma_nccl {

/// Option callback: 0, or -1 with the fault told, which makes srun and sbatch end; also where this Slurm cannot do what
/// is asked. `help` prints the keys and ends the
/// process.
int client_option(Configuration& configuration, const char* argument);

/// init_post_opt: faults of the environment's settings are told here when the option was not given, but the site has us
/// on.
int client_check(const Configuration& configuration);

/// init_post_opt, srun only: makes the step's key, takes a port for the exchange, and publishes both. This early,
/// because the variables reach all components of a heterogeneous step only from here (srun.c, _launch_app, copies the
/// environment for each).
void client_open_exchange(const Configuration& configuration, std::optional<ExchangeServer>& server);

/// What srun's end has to know of its step.
struct ClientStep {
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    Settings settings;
};

/// local_user_init, srun only: the note about head node, its address and a port; the exchange starts, or is called off
/// where there is nobody to talk to. -1 for a step that cannot be: the nodes, too, refuse it, as srun goes on where the
/// plugin is optional.
/// `step`: set where the step is ours.
int client_start_step(const Configuration& configuration, const Host& host, std::optional<ExchangeServer>& server,
                      std::optional<ClientStep>& step);

/// exit, srun only: hears what the nodes saw of the step's bytes, and says whether RDMA was used. False when the step
/// is to fail for it (strict).
bool client_end_step(const ClientStep& step, ExchangeServer& server);

// srun's exit status, which SPANK does not show: slurm_spank_exit is called behind main(), by atexit (srun_job.c).

/// From now on exit() leaves its status here before it calls slurm_spank_exit. The plugin stays loaded until then.
void watch_exit_status();

/// What the process has called exit() with; absent as long as it has not, or when nobody watches.
std::optional<int> exit_status();

/// In slurm_spank_exit: ends the process with another status. Nothing runs after it but what has to be written is.
[[noreturn]] void exit_instead(int status);

} // namespace rdma_nccl
