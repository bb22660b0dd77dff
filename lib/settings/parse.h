// SPDX-License-Identifier: Apache-2.0
// Parses the settings once, from four places; a later one in this list overrides an earlier one:
// site file < plugstack.conf arguments < environment RDMA_NCCL_KEY < option --rdma-nccl=key[=value],...
#pragma once

#include "lib/settings/settings.h"

#include <optional>
#include <span>
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

// The table of keys (keys.cpp).

struct SettingsKey {
    std::string_view name;
    std::string_view values; ///< the default first, as in the help text
    std::string_view meaning;
    /// Stores the value and returns nullopt, or returns a problem that names the valid values.
    std::optional<std::string> (*set)(Settings& settings, std::string_view value) = nullptr;
    bool site_only = false;
};

std::span<const SettingsKey> settings_keys();

/// Returns nullptr if there is no such key.
const SettingsKey* find_settings_key(std::string_view name);

/// Sets one of the four NCCL variables of `tuning`, which the site file gives by their own names. Returns false for any
/// other name. An invalid value leaves a message in `error`.
bool set_tuning_value(Settings& settings, std::string_view variable, std::string_view value, std::string& error);

} // namespace rdma_nccl
