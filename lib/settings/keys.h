// SPDX-License-Identifier: Apache-2.0
// The table of keys for settings_parse: name, values, meaning and the function that checks and stores a value.
#pragma once

#include "lib/settings/settings.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// Stores `value` in `settings` and returns nullopt, or returns a problem that names the valid values.
using SettingsSetter = std::optional<std::string> (*)(Settings& settings, std::string_view value);

struct SettingsKey {
    std::string_view name;
    std::string_view values; ///< the default first, as in the help text
    std::string_view meaning;
    SettingsSetter set = nullptr;
    bool site_only = false;
};

std::span<const SettingsKey> settings_keys();

/// Returns nullptr if there is no such key.
const SettingsKey* find_settings_key(std::string_view name);

/// Sets one of the four NCCL variables of `tuning`, which the site file gives by their own names. Returns false for any
/// other name. An invalid value leaves a message in `error`.
bool set_tuning_value(Settings& settings, std::string_view variable, std::string_view value, std::string& error);

} // namespace rdma_nccl
