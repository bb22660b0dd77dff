// SPDX-License-Identifier: Apache-2.0
#include "lib/settings/parse.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/settings/keys.h"
#include "lib/sys/environment.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::string_view environment_prefix = "RDMA_NCCL_";
constexpr std::size_t longest_line = 4096;

/// The bytes of a text that are wrong, and why.
struct Fault {
    std::size_t offset = 0;
    std::size_t length = 0;
    std::string message;
};

/// Returns "place: message", the text, and carets under the wrong bytes.
std::string show_fault(std::string_view place, std::string_view text, const Fault& fault) {
    constexpr std::size_t shown = 160;
    std::string result = format_text("{}: {}", place, fault.message);
    if (text.empty() || fault.offset > shown) {
        return result;
    }
    const std::size_t carets = std::min(std::max<std::size_t>(fault.length, 1), shown - fault.offset + 1);
    result += format_text("\n    {}\n    {}{}", printable(text, shown), std::string(fault.offset, ' '),
                          std::string(carets, '^'));
    return result;
}

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

/// The positions of a key and its value in the text shown with a fault.
struct Assignment {
    std::string_view key;
    std::optional<std::string_view> value; ///< absent: a bare key, which means `on`
    std::size_t key_offset = 0;
    std::size_t value_offset = 0;
};

std::optional<Fault> assign(Settings& settings, const Assignment& text, Origin origin, std::string_view place) {
    const SettingsKey* key = find_settings_key(text.key);
    if (key == nullptr) {
        return Fault{text.key_offset, text.key.size(), unknown_key(text.key, is_site(origin))};
    }
    if (key->site_only && !is_site(origin)) {
        return Fault{text.key_offset, text.key.size(),
                     format_text("{} can be set by the site only, in rdma-nccl.conf or plugstack.conf", key->name)};
    }
    const std::string_view value = text.value.value_or("on");
    const std::size_t offset = text.value ? text.value_offset : text.key_offset;
    const std::size_t length = text.value ? text.value->size() : text.key.size();
    if (const auto problem = key->set(settings, value)) {
        return Fault{offset, length, format_text("{}: {}", key->name, *problem)};
    }
    settings.given.insert_or_assign(std::string(key->name),
                                    Settings::Given{std::string(value), origin, std::string(place)});
    return std::nullopt;
}

Assignment parse_assignment(std::string_view whole, std::string_view part) {
    const auto [key, value] = split_once(part, '=');
    Assignment result{key, value, static_cast<std::size_t>(part.data() - whole.data()), 0};
    result.value_offset = result.key_offset + key.size() + 1;
    return result;
}

/// Removes what follows a # and the blanks around the rest.
std::string_view strip_comment(std::string_view line) {
    return trim(line.substr(0, line.find('#')));
}

void read_site_file(const SettingsSources& sources, SettingsOutcome& outcome) {
    std::size_t number = 0;
    for (const auto raw : split(*sources.site_text, '\n')) {
        ++number;
        const std::string place = format_text("{}:{}", sources.site_path, number);
        const std::string_view line = strip_comment(raw.substr(0, longest_line));
        if (line.empty()) {
            continue;
        }
        const auto [key_text, value_text] = split_once(line, '=');
        const std::string_view key = trim(key_text);
        const std::string_view value = trim(value_text.value_or("on"));
        const auto at = [line](std::string_view part) { return static_cast<std::size_t>(part.data() - line.data()); };
        std::string tuning_error;
        std::optional<Fault> fault;
        if (!set_tuning_value(outcome.settings, key, value, tuning_error)) {
            Assignment assignment{key, std::nullopt, at(key), 0};
            if (value_text) {
                assignment.value = value;
                assignment.value_offset = value.empty() ? line.size() : at(value);
            }
            fault = assign(outcome.settings, assignment, Origin::SiteFile, place);
        } else if (!tuning_error.empty()) {
            fault = Fault{value_text && !value.empty() ? at(value) : 0, value.size(),
                          format_text("{}: {}", key, tuning_error)};
        } else {
            outcome.settings.given.insert_or_assign(std::string(key),
                                                    Settings::Given{std::string(value), Origin::SiteFile, place});
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
        if (auto fault = assign(outcome.settings, parse_assignment(argument, argument), Origin::Plugstack, place)) {
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
        std::string key = name.substr(environment_prefix.size());
        std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
        });
        const std::string whole = format_text("{}={}", name, value);
        const Assignment assignment{key, value, environment_prefix.size(), name.size() + 1};
        if (const auto fault = assign(outcome.settings, assignment, Origin::Environment, name)) {
            outcome.errors.push_back(show_fault("environment", whole, *fault));
        }
    }
}

void read_option(const SettingsSources& sources, SettingsOutcome& outcome) {
    const std::string_view place = sources.option_name;
    const std::string_view text = *sources.option;
    outcome.settings.enable = true;
    outcome.settings.given.insert_or_assign("enable", Settings::Given{"on", Origin::Option, std::string(place)});
    if (text.empty()) {
        return;
    }
    for (const auto part : split(text, ',')) {
        Assignment assignment = parse_assignment(text, part);
        if (part == "on" || part == "off") { // --rdma-nccl=off, for one step, if the site has it on
            assignment = Assignment{"enable", part, assignment.key_offset, assignment.key_offset};
        }
        if (auto fault = assign(outcome.settings, assignment, Origin::Option, place)) {
            if (find_settings_key(assignment.key) == nullptr && !assignment.value &&
                text.find("hca=") < assignment.key_offset) {
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
void settle_spawn(SettingsOutcome& outcome) {
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
    settle_spawn(outcome);
    return outcome;
}

bool asks_for_help(std::string_view option) {
    const auto parts = split(option, ',');
    return std::find(parts.begin(), parts.end(), "help") != parts.end();
}

std::string settings_help() {
    std::string text =
        "--rdma-nccl[=KEY[=VALUE],...]   a bare KEY means on; lists are joined by +\n"
        "Also: environment RDMA_NCCL_<KEY>, plugstack.conf arguments, site file rdma-nccl.conf (weakest).\n\n"
        "KEY         VALUES (default first)           MEANING\n";
    for (const auto& key : settings_keys()) {
        const std::string_view note = key.site_only ? " (site only)" : "";
        text += format_text("{:<11} {:<32} {}{}\n", key.name, key.values, key.meaning, note);
    }
    return text;
}

} // namespace rdma_nccl
