// SPDX-License-Identifier: Apache-2.0
#include "tools/settings_options.h"

#include "lib/environment.h"
#include "lib/root.h"
#include "lib/settings_parse.h"
#include "tools/print.h"

#include <unistd.h>

namespace rdma_nccl {

void add_settings_options(CLI::App& command, SettingsOptions& options) {
    command.add_option("--root", options.root, "read /sys, /proc and /etc below DIR: a copied or emulated machine")
        ->type_name("DIR");
    command.add_option("--set", options.set, "settings as in srun --rdma-nccl=KEY=VALUE,...")
        ->type_name("KEY=VALUE,...");
    command.add_option("--conf", options.site_file, "the site file")->type_name("FILE")->capture_default_str();
}

Result<Settings> settings_from(const SettingsOptions& options) {
    SettingsSources sources;
    sources.site_path = options.site_file;
    if (const auto root = Root::open("/")) {
        if (auto text = root->read(options.site_file, std::size_t{1} << 20)) {
            sources.site_text = std::move(*text);
        }
    }
    const auto environment = Environment::from(environ);
    for (const auto& [name, value] : environment.all()) {
        sources.environment.emplace_back(name, value); // resolve_settings() takes RDMA_NCCL_* only
    }
    sources.option = options.set;
    sources.option_name = "--set";
    auto outcome = resolve_settings(sources);
    for (const auto& warning : outcome.warnings) {
        print_error(warning);
    }
    if (!outcome.errors.empty()) {
        return fail(outcome.errors.front());
    }
    if (!options.root.empty()) {
        outcome.settings.root = options.root;
    }
    return outcome.settings;
}

} // namespace rdma_nccl
