// SPDX-License-Identifier: Apache-2.0
// The plugin in srun, sbatch and salloc. It runs as the user, refuses invalid settings before anything is queued, and
// in srun leaves a note for the nodes.
#pragma once

#include "lib/exchange/server.h"
#include "plugin/configuration.h"
#include "plugin/spank.h"

#include <cstdint>
#include <optional>

namespace rdma_nccl {

/// Option callback. Returns 0, or -1 after reporting an invalid setting or one that this Slurm cannot support; srun and
/// sbatch then exit. `help` prints the keys and ends the process.
int client_option(Configuration& configuration, const char* argument);

/// init_post_opt: if we are enabled without the option, reports errors in the environment's settings and exits.
int client_check(const Configuration& configuration);

/// init_post_opt, srun only: makes the step's key, takes a port for the exchange, and publishes both. It must be this
/// early: only from here do the variables reach all components of a heterogeneous step (srun.c, _launch_app, copies the
/// environment for each).
void client_open_exchange(const Configuration& configuration, std::optional<ExchangeServer>& server);

/// The facts about its step that srun needs at its end.
struct ClientStep {
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    Settings settings;
};

/// local_user_init, srun only: writes the note with the head node, its address and a port, and starts the exchange, or
/// calls it off if there is nobody to talk to. Returns -1 for an impossible step, which the nodes refuse too, because
/// srun goes on if the plugin is optional. Sets `step` if the step is ours.
int client_start_step(const Configuration& configuration, const SpankHandle& host,
                      std::optional<ExchangeServer>& server, std::optional<ClientStep>& step);

/// init_post_opt, srun only: warns if plugstack.conf lists the plugin more than once (`count`) and the step is ours.
void client_warn_of_lines(const Configuration& configuration, std::size_t count);

/// exit, srun only: receives what the nodes saw of the step's bytes, and reports whether RDMA was used. If the step
/// must fail because of it (strict), ends srun with status 1 instead of 0.
void client_end_step(const ClientStep& step, ExchangeServer& server);

} // namespace rdma_nccl
