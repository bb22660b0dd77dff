// SPDX-License-Identifier: Apache-2.0
// The settings of a subcommand: the same places and words as srun's, `--set key=value,...` in place of --rdma-nccl.
#pragma once

#include "lib/result.h"
#include "lib/settings.h"
#include "tools/command_line.h"

#include <optional>
#include <string>

namespace rdma_nccl {

struct SettingsOptions {
    std::string site_file = SYSCONFDIR "/rdma-nccl.conf";
    bool site_file_given = false;
    std::optional<std::string> set;
    std::string root;
};

/// Adds --set, --conf and --root.
void add_settings_options(const Subcommand& command, SettingsOptions& options);

/// Resolves them with the site file and this process's environment; site warnings go to stderr.
Result<Settings> settings_from(const SettingsOptions& options);

} // namespace rdma_nccl
