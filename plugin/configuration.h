// SPDX-License-Identifier: Apache-2.0
// The plugin's settings in one process: its plugstack.conf arguments, the site file, the environment and the option.
#pragma once

#include "lib/environment.h"
#include "lib/settings_parse.h"
#include "lib/step.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

class Configuration {
public:
    /// plugstack.conf's words behind the plugin's path; `conf=FILE` names the site file, the rest are settings.
    void take_arguments(int count, char* const* arguments);
    /// The option's argument as a callback got it: a bare option arrives as NULL, "" or "(null)" (NVIDIA/pyxis#55,
    /// Slurm 22.05).
    void take_option(const char* argument);

    [[nodiscard]] const std::optional<std::string>& option() const { return option_; }

    /// Reads the site file and resolves everything. `environment` is the user's; a note from srun replaces its
    /// RDMA_NCCL_*, because --export may have kept them from reaching the node.
    [[nodiscard]] SettingsOutcome resolve(const Environment& environment, const std::optional<StepNote>& note) const;

private:
    std::string site_path_; ///< empty: where the build put it
    std::vector<std::string> plugstack_;
    std::optional<std::string> option_;
};

/// The environment's settings as text for StepNote::settings, "RDMA_NCCL_GID=3,RDMA_NCCL_NET=eth0".
std::string settings_for_note(const Environment& environment);

} // namespace rdma_nccl
