// SPDX-License-Identifier: Apache-2.0
// Parses the settings once, from four places; a later one in this list overrides an earlier one:
// site file < plugstack.conf arguments < environment RDMA_NCCL_KEY < option --rdma-nccl=key[=value],...
#pragma once

#include "lib/settings/settings.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// The raw text of each place.
struct SettingsSources {
    std::string site_path;                ///< for messages
    std::optional<std::string> site_text; ///< absent: no such file
    std::vector<std::string> plugstack;   ///< "key=value" or "key", one per argument
    /// Environment variables. Those whose names do not start with RDMA_NCCL_ are ignored.
    std::vector<std::pair<std::string, std::string>> environment;
    /// The option's name and its argument (absent: option not given; "": given without an argument).
    std::string option_name = "--rdma-nccl"; ///< for messages
    std::optional<std::string> option;
};

struct SettingsOutcome {
    Settings settings;
    /// Errors in the user's places (environment, option): srun and sbatch refuse them.
    std::vector<std::string> errors;
    /// Errors in the site's places: reported and ignored, so that no job fails because of them.
    std::vector<std::string> warnings;
};

SettingsOutcome resolve_settings(const SettingsSources& sources);

/// Returns true if this option argument asks for the help text.
bool asks_for_help(std::string_view option);

/// Returns all keys, their values and meanings, for `--rdma-nccl=help`.
std::string settings_help();

} // namespace rdma_nccl
