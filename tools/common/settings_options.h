// SPDX-License-Identifier: Apache-2.0
// The settings of a subcommand, from the same sources and in the same syntax as srun's, with `--set key=value,...`
// instead of --rdma-nccl.
#pragma once

#include "lib/base/result.h"
#include "lib/settings/settings.h"
#include "tools/common/command_line.h"

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

/// Resolves the options with the site file and this process's environment. Prints warnings about the site file on
/// stderr.
Result<Settings> settings_from(const SettingsOptions& options);

/// Reads a file of this machine that the user may name, without --root.
Result<std::string> read_user_file(const std::string& path, std::size_t most = std::size_t{1} << 20);

} // namespace rdma_nccl
