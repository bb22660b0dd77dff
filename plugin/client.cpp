// SPDX-License-Identifier: Apache-2.0
#include "plugin/client.h"

#include "lib/port.h"
#include "lib/root.h"
#include "plugin/step_layout.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace rdma_nccl {

namespace {

Environment own_environment() {
    return Environment::from(environ);
}

/// Tells the faults of the user's own settings; true when there are any.
bool tell_errors(const SettingsOutcome& outcome) {
    for (const auto& error : outcome.errors) {
        tell_user(error);
    }
    return !outcome.errors.empty();
}

std::uint16_t port_for(const Settings& settings, std::uint32_t job_id, std::uint32_t step_id) {
    const auto root = Root::open("/");
    const auto ephemeral = root ? read_ephemeral_range(*root) : std::nullopt;
    return derive_port(job_id, step_id, settings.port_range ? *settings.port_range : default_port_range(ephemeral));
}

} // namespace

int client_option(Configuration& configuration, const char* argument) {
    configuration.take_option(argument);
    if (asks_for_help(*configuration.option())) {
        const std::string help = settings_help();
        (void)std::fwrite(help.data(), 1, help.size(), stdout);
        (void)std::fflush(stdout);
        std::_Exit(EXIT_SUCCESS); // as --help of srun itself: nothing was asked to run
    }
    return tell_errors(configuration.resolve(own_environment(), std::nullopt)) ? -1 : 0;
}

int client_check(const Configuration& configuration) {
    if (configuration.option()) {
        return 0; // the callback has told
    }
    const auto outcome = configuration.resolve(own_environment(), std::nullopt);
    if (!outcome.settings.enable || !tell_errors(outcome)) {
        return 0;
    }
    // An optional plugin's return value is dropped (plugstack.c, _do_call_stack), and a step with settings that cannot
    // be meant must not be queued.
    std::exit(EXIT_FAILURE);
}

int client_leave_note(const Configuration& configuration, const Host& host) {
    const Environment environment = own_environment();
    const auto outcome = configuration.resolve(environment, std::nullopt);
    const auto job_id = host.job_id();
    const auto step_id = host.step_id();
    if (!outcome.settings.enable || !job_id || !step_id || *step_id >= first_special_step) {
        return 0;
    }
    if (outcome.settings.verbose > 0) {
        for (const auto& warning : outcome.warnings) {
            tell_user(warning);
        }
    }
    StepNote note = make_note(*job_id, *step_id, find_rank_zero(*job_id, *step_id).value_or(RankZeroNode()));
    note.port = port_for(outcome.settings, *job_id, *step_id);
    note.settings = settings_for_note(environment);
    if (::setenv(std::string(note_variable).c_str(), write_note(note).c_str(), 1) != 0) {
        tell_user("srun could not pass on what it knows of the step: each node works it out alone");
    }
    return 0;
}

} // namespace rdma_nccl
