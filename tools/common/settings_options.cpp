// SPDX-License-Identifier: Apache-2.0
#include "tools/common/settings_options.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/settings/parse.h"
#include "lib/sys/sysroot.h"
#include "tools/common/print.h"

#include <cerrno>

namespace rdma_nccl {

void add_settings_options(const Subcommand& command, SettingsOptions& options) {
    command
        .option("--root", options.root, "read /sys, /proc and /etc/nccl.conf below DIR: a copied or emulated machine")
        .not_empty()
        .type_name("DIR");
    command.option("--set", options.set, "settings as in srun --rdma-nccl=KEY=VALUE,...").type_name("KEY=VALUE,...");
    command.option("--conf", options.site_file, "the site file")
        .type_name("FILE")
        .shows_default()
        .when_given([&options] { options.site_file_given = true; });
}

void run_with_settings(const Subcommand& command, SettingsOptions& options, int& exit_code,
                       std::function<Result<int>(const Settings& settings)> run) {
    add_settings_options(command, options);
    command.on_run([&options, &exit_code, run = std::move(run)] {
        const auto settings = settings_from(options);
        if (settings) {
            exit_code = exit_code_of(run(*settings));
        } else {
            print_error(settings.error().message);
            exit_code = exit_bad_line;
        }
    });
}

std::vector<std::string> arguments_of(const SettingsOptions& options) {
    std::vector<std::string> arguments;
    if (options.set) {
        arguments.insert(arguments.end(), {"--set", *options.set});
    }
    if (options.site_file_given) {
        arguments.insert(arguments.end(), {"--conf", options.site_file});
    }
    if (!options.root.empty()) {
        arguments.insert(arguments.end(), {"--root", options.root});
    }
    return arguments;
}

int exit_code_of(const Result<int>& ended) {
    if (!ended) {
        print_error(ended.error().message);
    }
    return ended.value_or(exit_cannot_tell);
}

Result<std::string> read_user_file(const std::string& path, std::size_t most) {
    const auto root = SysRoot::open("/");
    return root ? root->read(path, most) : tl::unexpected(root.error());
}

Result<void> replace_own(const std::string& path, std::string_view mark, std::string_view text,
                         std::string_view refusal) {
    constexpr unsigned public_file = 0644;
    const auto start = read_user_file(path, mark.size());
    const bool ours = start ? start->empty() || *start == mark : start.error().os_error == ENOENT;
    return ours ? replace_file(path, text, public_file) : fail(format_text("{} {}", printable(path, 200), refusal));
}

namespace {

/// Returns the site file's text; nullopt if there is no file and the user did not name one. Fails if the user named a
/// file that cannot be read.
Result<std::optional<std::string>> read_site_file(const SettingsOptions& options) {
    auto text = read_user_file(options.site_file);
    if (text) {
        return std::move(*text);
    }
    if (options.site_file_given) {
        return fail("--conf " + text.error().message);
    }
    if (text.error().os_error != ENOENT) {
        print_error("warning: cannot read the site file, so its settings are not used: " + text.error().message);
    }
    return std::nullopt;
}

} // namespace

Result<Settings> settings_from(const SettingsOptions& options, const Environment& environment) {
    auto site_text = read_site_file(options);
    if (!site_text) {
        return tl::unexpected(site_text.error());
    }
    SettingsSources sources;
    sources.site_path = options.site_file;
    sources.site_text = std::move(*site_text);
    for (const auto& [name, value] : environment.all()) {
        sources.environment.emplace_back(name, value); // resolve_settings() uses only RDMA_NCCL_*
    }
    sources.option = options.set;
    sources.option_name = "--set";
    auto outcome = resolve_settings(sources);
    constexpr std::size_t most_warnings = 8;
    for (std::size_t i = 0; i < outcome.warnings.size() && i < most_warnings; ++i) {
        print_error(outcome.warnings[i]);
    }
    if (outcome.warnings.size() > most_warnings) {
        print_error(format_text("{}: {} more lines are invalid; is this the right file?", options.site_file,
                                outcome.warnings.size() - most_warnings));
    }
    if (!outcome.errors.empty()) {
        if (options.strict_environment) {
            return fail(outcome.errors.front());
        }
        for (std::size_t i = 0; i < outcome.errors.size() && i < most_warnings; ++i) {
            print_error("warning: " + outcome.errors[i]);
        }
        if (outcome.errors.size() > most_warnings) {
            print_error(
                format_text("{} more settings of the environment are invalid", outcome.errors.size() - most_warnings));
        }
    }
    if (!options.root.empty()) {
        outcome.settings.root = options.root;
    }
    return outcome.settings;
}

} // namespace rdma_nccl
