// SPDX-License-Identifier: Apache-2.0
// The settings of a subcommand, from the same sources and in the same syntax as srun's, with `--set key=value,...`
// instead of --rdma-nccl.
#pragma once

#include "lib/base/result.h"
#include "lib/settings/settings.h"
#include "lib/sys/environment.h"
#include "tools/common/command_line.h"

#include <functional>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

struct SettingsOptions {
    std::string site_file = SYSCONFDIR "/rdma-nccl.conf";
    bool site_file_given = false;
    std::optional<std::string> set;
    std::string root;
    bool strict_environment = true; ///< false: what is wrong in RDMA_NCCL_* is a warning, and the rest counts
};

/// Adds --set, --conf and --root.
void add_settings_options(const Subcommand& command, SettingsOptions& options);

/// Adds these options, and makes `run` what the command does. `exit_code` becomes what it returns; exit_cannot_tell if
/// it fails; exit_bad_line, without calling it, if the settings cannot be used. The last two print an error.
void run_with_settings(const Subcommand& command, SettingsOptions& options, int& exit_code,
                       std::function<Result<int>(const Settings& settings)> run);

/// Returns these options as arguments of this program, on another node.
std::vector<std::string> arguments_of(const SettingsOptions& options);

/// Returns a command's exit code; if it failed, prints the error and returns exit_cannot_tell.
int exit_code_of(const Result<int>& ended);

/// Resolves the options with the site file and this process's environment, or a task's. Prints warnings about the site
/// file on stderr.
Result<Settings> settings_from(const SettingsOptions& options,
                               const Environment& environment = Environment::from(environ));

/// Reads a file of this machine that the user may name, without --root.
Result<std::string> read_user_file(const std::string& path, std::size_t most = std::size_t{1} << 20);

/// Replaces a file if it does not exist, is empty, or starts with `mark`; else fails with `refusal`.
Result<void> replace_own(const std::string& path, std::string_view mark, std::string_view text,
                         std::string_view refusal);

} // namespace rdma_nccl
