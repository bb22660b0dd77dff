// SPDX-License-Identifier: Apache-2.0
#include "plugin/configuration.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/net/message.h"
#include "lib/sys/sysroot.h"

#include <cerrno>
#include <functional>

namespace rdma_nccl {

constexpr std::size_t largest_site_file = std::size_t{1} << 20;

/// Also the message of the child that reads it.
struct SiteFile {
    static constexpr std::string_view message_name = "site";
    bool found = false;
    std::string text;
    std::string problem; ///< empty: it is read, or not there
};

void fields(auto& f, Is<SiteFile> auto& m) {
    constexpr std::size_t longest_problem = 8192;
    f("found", m.found);
    f("text", raw(m.text), largest_site_file);
    f("problem", raw(m.problem), longest_problem);
}

namespace {

SiteFile read_site_file(const std::string& path) {
    const auto root = SysRoot::open("/");
    const auto text = root ? root->read(path, largest_site_file) : fail("", ENOENT);
    if (text) {
        return {true, *text, ""};
    }
    if (text.error().os_error == ENOENT) {
        return {};
    }
    return {false, "", format_text("{}; site settings are not used, make it readable for users", text.error().message)};
}

std::optional<SiteFile> read_site_file_within(std::chrono::milliseconds limit, const std::string& path) {
    const std::function<SiteFile()> read = [&path] { return read_site_file(path); };
    return ChildValue<SiteFile>::start(read).finish(std::chrono::steady_clock::now() + limit);
}

/// Follows `srun -Q`: srun exports its log level, 3 for information (srun_job.c, _set_umask_env).
void follow_quiet(Settings& settings, const Environment& environment) {
    constexpr int information = 3;
    if (parse_number<int>(environment.get("SRUN_DEBUG").value_or("")).value_or(information) < information) {
        settings.verbose = 0;
    }
}

} // namespace

void Configuration::take_arguments(int count, char* const* arguments) {
    constexpr std::string_view file_key = "conf=";
    plugstack_.clear();
    for (int i = 0; i < count; ++i) {
        const std::string_view argument = arguments[i];
        if (argument.starts_with(file_key)) {
            site_path_ = argument.substr(file_key.size());
        } else {
            plugstack_.emplace_back(argument);
        }
    }
}

void Configuration::take_option(const char* argument) {
    const std::string_view text = argument == nullptr ? "" : argument;
    option_ = text == "(null)" ? "" : text;
}

SettingsOutcome Configuration::resolve(const Environment& environment, const std::optional<StepNote>& note,
                                       std::optional<std::chrono::milliseconds> limit) const {
    SettingsSources sources;
    sources.site_path = site_path_.empty() ? SYSCONFDIR "/rdma-nccl.conf" : site_path_;
    const auto site_file = limit && !site_path_.empty() ? read_site_file_within(*limit, site_path_)
                                                        : std::optional(read_site_file(sources.site_path));
    if (site_file && site_file->found) {
        sources.site_text = site_file->text;
    }
    sources.plugstack = plugstack_;
    const std::string noted = note ? note->settings : "";
    for (const auto part : split(noted, ',')) {
        if (const auto [name, value] = split_once(part, '='); value) {
            sources.environment.emplace_back(name, *value);
        }
    }
    for (const auto& own : environment.all()) { // srun --export=RDMA_NCCL_X=... wins
        sources.environment.emplace_back(own);
    }
    sources.option = option_;
    SettingsOutcome outcome = resolve_settings(sources);
    follow_quiet(outcome.settings, environment);
    if (!site_file) {
        outcome.errors.insert(outcome.errors.begin(),
                              format_text("{} was not read in time; site settings are not used", site_path_));
    } else if (!site_file->problem.empty()) {
        outcome.warnings.insert(outcome.warnings.begin(), site_file->problem);
    }
    return outcome;
}

std::string settings_for_note(const Environment& environment) {
    std::string text;
    for (const auto& [name, value] : environment.all()) {
        if (is_settings_variable(name, value)) {
            text += format_text("{}{}={}", text.empty() ? "" : ",", name, value);
        }
    }
    return text;
}

std::string too_many_tasks_to_spawn(unsigned tasks, unsigned nodes) {
    return format_text("spawn=on starts one rank per GPU from one task per node, and this step has {} tasks on {}: "
                       "use --ntasks-per-node=1 (and no more tasks than nodes), or spawn=off for tasks that are ranks",
                       tasks, format_count(nodes, "node"));
}

} // namespace rdma_nccl
