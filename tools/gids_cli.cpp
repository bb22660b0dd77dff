// SPDX-License-Identifier: Apache-2.0
#include "tools/gids_cli.h"

#include "tools/gids.h"
#include "tools/print.h"
#include "tools/settings_options.h"

#include <memory>

namespace rdma_nccl {

namespace {

struct GidsLine {
    GidsOptions options;
    SettingsOptions settings;
};

int run_gids(GidsLine& line) {
    auto settings = settings_from(line.settings);
    if (!settings) {
        print_error(settings.error().message);
        return 2;
    }
    line.options.root = settings->root;
    line.options.settings = std::move(*settings);
    return gids_command(line.options);
}

} // namespace

void add_gids_command(CLI::App& app, int& exit_code) {
    auto line = std::make_shared<GidsLine>();
    auto* command =
        app.add_subcommand("gids", "the GIDs of this node's RDMA ports: which are used, and why the others are not");
    command->add_flag("--json", line->options.json, "print JSON");
    command->add_flag("--all", line->options.all, "every entry of every port");
    command->add_option("--device", line->options.device, "only this HCA")->type_name("NAME");
    command->add_option("--port", line->options.port, "only this port number")->type_name("N");
    add_settings_options(*command, line->settings);
    command->callback([line, &exit_code] { exit_code = run_gids(*line); });
}

} // namespace rdma_nccl
