// SPDX-License-Identifier: Apache-2.0
// The plugin's settings in one process: its plugstack.conf arguments, the site file, the environment and the option.
#pragma once

#include "lib/settings/parse.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

class Configuration {
public:
    /// Takes the words after the plugin's path in plugstack.conf: `conf=FILE` for the site file, and settings.
    void take_arguments(int count, char* const* arguments);
    /// Takes the option's argument from a callback. A bare option arrives as NULL, "" or "(null)" (NVIDIA/pyxis#55,
    /// Slurm 22.05).
    void take_option(const char* argument);

    [[nodiscard]] const std::optional<std::string>& option() const { return option_; }

    /// Reads the site file and resolves everything. `environment` is the user's. A note from srun adds the RDMA_NCCL_*
    /// of srun's environment, which --export may have kept from the node; the node's own take precedence. With a
    /// `limit`, a child reads a site file that plugstack.conf names: it may be on a dead file system.
    [[nodiscard]] SettingsOutcome resolve(const Environment& environment, const std::optional<StepNote>& note,
                                          std::optional<std::chrono::milliseconds> limit = std::nullopt) const;

private:
    std::string site_path_; ///< empty: the build's default
    std::vector<std::string> plugstack_;
    std::optional<std::string> option_;
};

/// Returns the environment's settings as text for StepNote::settings, "RDMA_NCCL_GID=3,RDMA_NCCL_NET=eth0".
std::string settings_for_note(const Environment& environment);

// Why spawn=on is refused, in srun or in a task.
inline constexpr std::string_view spawn_needs_newer_slurm =
    "spawn=on needs Slurm 23.11 or newer (spank_prepend_task_argv); type instead: srun --rdma-nccl ... rdma-nccl run "
    "PROGRAM";
std::string too_many_tasks_to_spawn(unsigned tasks, unsigned nodes);

} // namespace rdma_nccl
