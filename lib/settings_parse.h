// SPDX-License-Identifier: Apache-2.0
// The vocabulary of settings (doc/design.md, Settings): parsed once, from four places, the stronger place last:
// site file < plugstack.conf arguments < environment RDMA_NCCL_KEY < option --rdma-nccl=key[=value],...
#pragma once

#include "lib/settings.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// One place's raw text.
struct SettingsSources {
    std::string site_path;                ///< for messages
    std::optional<std::string> site_text; ///< absent: no such file
    std::vector<std::string> plugstack;   ///< "key=value" or "key", one per argument
    /// Environment variables whose names start with RDMA_NCCL_, others are ignored.
    std::vector<std::pair<std::string, std::string>> environment;
    /// The option's argument; absent: option not given; "": given bare.
    std::string option_name = "--rdma-nccl"; ///< for messages
    std::optional<std::string> option;
};

struct SettingsOutcome {
    Settings settings;
    /// Faults of the user's own places (environment, option): srun and sbatch refuse them.
    std::vector<std::string> errors;
    /// Faults of the site's places: said, ignored, and no job fails because of them.
    std::vector<std::string> warnings;
};

SettingsOutcome resolve_settings(const SettingsSources& sources);

/// Whether this option argument asks for the help text.
bool asks_for_help(std::string_view option);

/// All keys, their values and meaning, for `--rdma-nccl=help`.
std::string settings_help();

} // namespace rdma_nccl
