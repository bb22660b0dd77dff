// SPDX-License-Identifier: Apache-2.0
#include "lib/settings/parse.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/settings/fault.h"
#include "lib/sys/environment.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::string_view environment_prefix = "RDMA_NCCL_";
constexpr std::size_t longest_line = 4096;

std::string unknown_key(std::string_view name, bool with_site_keys) {
    std::vector<std::string_view> names;
    for (const auto& key : settings_keys()) {
        if (with_site_keys || !key.site_only) {
            names.push_back(key.name);
        }
    }
    const std::string found =
        name.empty() ? "a key is missing" : format_text("unknown key \"{}\"", printable(name, 40));
    if (const auto near = nearest_word(name, names)) {
        return format_text("{}; did you mean {}?", found, *near);
    }
    return found + "; --rdma-nccl=help lists all keys";
}

bool is_site(Origin origin) {
    return origin == Origin::SiteFile || origin == Origin::Plugstack;
}

void note_given(Settings& settings, std::string_view key, std::string_view value, Origin origin,
                std::string_view place) {
    settings.given.insert_or_assign(std::string(key), Settings::Given{std::string(value), origin, std::string(place)});
}

/// `text`: key and value as the text has them that is shown with a fault; a bare key means `on`.
std::optional<Fault> assign(Settings& settings, std::string_view name, const KeyValue& text, Origin origin,
                            std::string_view place) {
    const SettingsKey* key = find_settings_key(name);
    if (key == nullptr) {
        return Fault{text.key, unknown_key(name, is_site(origin))};
    }
    if (key->site_only && !is_site(origin)) {
        return Fault{text.key,
                     format_text("{} can be set by the site only, in rdma-nccl.conf or plugstack.conf", name)};
    }
    const std::string_view value = text.value.value_or("on");
    if (const auto problem = key->set(settings, value)) {
        return Fault{text.value.value_or(text.key), format_text("{}: {}", name, *problem)};
    }
    note_given(settings, name, value, origin, place);
    return std::nullopt;
}

void read_site_file(const SettingsSources& sources, SettingsOutcome& outcome) {
    std::size_t number = 0;
    for (const auto raw : split(*sources.site_text, '\n')) {
        ++number;
        const std::string place = format_text("{}:{}", sources.site_path, number);
        const std::string_view line = trim(raw.substr(0, std::min(raw.find('#'), longest_line)));
        if (line.empty()) {
            continue;
        }
        const auto [key_text, value_text] = split_once(line, '=');
        const std::string_view key = trim(key_text);
        const std::string_view value = trim(value_text.value_or("on"));
        std::string tuning_error;
        std::optional<Fault> fault;
        if (!set_tuning_value(outcome.settings, key, value, tuning_error)) {
            const KeyValue assignment{key, value_text ? std::optional(value) : std::nullopt};
            fault = assign(outcome.settings, key, assignment, Origin::SiteFile, place);
        } else if (!tuning_error.empty()) {
            fault = Fault{value_text && !value.empty() ? value : line.substr(0, value.size()),
                          format_text("{}: {}", key, tuning_error)};
        } else {
            note_given(outcome.settings, key, value, Origin::SiteFile, place);
        }
        if (fault) {
            fault->message += "; line ignored";
            outcome.warnings.push_back(show_fault(place, line, *fault));
        }
    }
}

void read_plugstack(const SettingsSources& sources, SettingsOutcome& outcome) {
    constexpr std::string_view place = "plugstack.conf";
    for (const auto& argument : sources.plugstack) {
        const auto text = split_once(argument, '=');
        if (auto fault = assign(outcome.settings, text.key, text, Origin::Plugstack, place)) {
            fault->message += "; argument ignored";
            outcome.warnings.push_back(show_fault(place, argument, *fault));
        }
    }
}

void read_environment(const SettingsSources& sources, SettingsOutcome& outcome) {
    for (const auto& [name, value] : sources.environment) {
        if (!is_settings_variable(name, value)) {
            continue;
        }
        const std::string whole = format_text("{}={}", name, value);
        auto text = split_once(whole, '=');
        text.key.remove_prefix(environment_prefix.size());
        if (const auto fault = assign(outcome.settings, lower_case(text.key), text, Origin::Environment, name)) {
            outcome.errors.push_back(show_fault("environment", whole, *fault));
        }
    }
}

void read_option(const SettingsSources& sources, SettingsOutcome& outcome) {
    const std::string_view place = sources.option_name;
    const std::string_view text = *sources.option;
    outcome.settings.enable = true;
    note_given(outcome.settings, "enable", "on", Origin::Option, place);
    if (text.empty()) {
        return;
    }
    for (const auto part : split(text, ',')) {
        // --rdma-nccl=off, for one step, if the site has it on
        const bool is_switch = part == "on" || part == "off";
        const auto [key, value] = is_switch ? KeyValue{part, part} : split_once(part, '=');
        if (auto fault = assign(outcome.settings, is_switch ? "enable" : key, {key, value}, Origin::Option, place)) {
            if (find_settings_key(key) == nullptr && !value &&
                text.find("hca=") < static_cast<std::size_t>(key.data() - text.data())) {
                fault->message += "; several HCAs are joined by +"; // the user wrote hca=mlx5_1,mlx5_2
            }
            outcome.errors.push_back(show_fault(place, text, *fault));
            return; // report only the first fault: the user must fix it first
        }
    }
}

/// Returns the place that a key was given in.
Origin origin_of(const Settings& settings, std::string_view key) {
    const auto found = settings.given.find(key);
    return found == settings.given.end() ? Origin::Default : found->second.origin;
}

void limit_exchange(SettingsOutcome& outcome) {
    auto& settings = outcome.settings;
    if (settings.exchange_seconds > most_users_exchange_seconds && !is_site(origin_of(settings, "exchange"))) {
        outcome.errors.push_back(format_text("{}: exchange: more than {} seconds are for the site to set, in "
                                             "rdma-nccl.conf or plugstack.conf",
                                             settings.given.at("exchange").place, most_users_exchange_seconds));
        settings.exchange_seconds = most_users_exchange_seconds;
    }
}

/// A layout that rules out `spawn` wins if it was given in a stronger place; otherwise it is an error.
void resolve_spawn(SettingsOutcome& outcome) {
    auto& settings = outcome.settings;
    if (!settings.spawn || settings.layout == Layout::Auto || settings.layout == Layout::Node) {
        return;
    }
    if (origin_of(settings, "layout") <= origin_of(settings, "spawn")) {
        outcome.errors.push_back(format_text("{}: spawn=on starts the ranks of a node, which is layout=node: give no "
                                             "other layout, or spawn=off",
                                             settings.given.at("spawn").place));
    }
    settings.spawn = false;
}

} // namespace

SettingsOutcome resolve_settings(const SettingsSources& sources) {
    SettingsOutcome outcome;
    if (sources.site_text) {
        read_site_file(sources, outcome);
    }
    read_plugstack(sources, outcome);
    read_environment(sources, outcome);
    if (sources.option) {
        read_option(sources, outcome);
    }
    if (outcome.settings.hosts == HostsChoice::Mount && !outcome.settings.hosts_mount_allowed) {
        outcome.errors.push_back(
            format_text("{}: hosts=mount is not allowed here: the site has to set hosts_mount=on in rdma-nccl.conf; "
                        "hosts=file writes the table into a file",
                        outcome.settings.given.at("hosts").place));
        outcome.settings.hosts = HostsChoice::Off; // a caller that continues despite the error must not mount
    }
    limit_exchange(outcome);
    resolve_spawn(outcome);
    return outcome;
}

bool asks_for_help(std::string_view option) {
    return contains(split(option, ','), "help");
}

std::string settings_help() {
    std::string text =
        "--rdma-nccl[=KEY[=VALUE],...]   a bare KEY means on; lists are joined by +\n"
        "Also: environment RDMA_NCCL_<KEY>, plugstack.conf arguments, site file rdma-nccl.conf (weakest).\n\n"
        "KEY             VALUES (default first)           MEANING\n";
    for (const auto& key : settings_keys()) {
        const std::string_view note = key.site_only ? " (site only)" : "";
        text += format_text("{:<15} {:<32} {}{}\n", key.name, key.values, key.meaning, note);
    }
    return text;
}

} // namespace rdma_nccl
