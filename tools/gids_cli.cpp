// SPDX-License-Identifier: Apache-2.0
#include "tools/gids_cli.h"

#include "lib/text.h"
#include "tools/gids.h"
#include "tools/print.h"
#include "tools/settings_options.h"

#include <memory>

namespace rdma_nccl {

namespace {

struct GidsLine {
    GidsOptions options;
    SettingsOptions settings;
    bool json = false;
    bool all = false;
    bool show_gids = false;
};

GidsForm form_of(const GidsLine& line) {
    if (line.json) {
        return GidsForm::Json;
    }
    if (line.show_gids) {
        return GidsForm::ShowGids;
    }
    return line.all ? GidsForm::FullTable : GidsForm::Table;
}

int run_gids(GidsLine& line) {
    auto settings = settings_from(line.settings);
    if (!settings) {
        print_error(settings.error().message);
        return 2;
    }
    line.options.form = form_of(line);
    line.options.root = settings->root;
    line.options.settings = std::move(*settings);
    return gids_command(line.options);
}

RoceVersion parse_version(const std::string& text) {
    if (text == "v1" || text == "1") {
        return RoceVersion::V1;
    }
    if (text == "v2" || text == "2") {
        return RoceVersion::V2;
    }
    throw CLI::ValidationError("--version", "is v1 or v2, not " + printable(text));
}

FamilyChoice parse_family(const std::string& text) {
    if (text == "ipv4") {
        return FamilyChoice::Ipv4;
    }
    if (text == "ipv6") {
        return FamilyChoice::Ipv6;
    }
    throw CLI::ValidationError("--family", "is ipv4 or ipv6, not " + printable(text));
}

void add_forms(CLI::App& command, GidsLine& line) {
    auto* json = command.add_flag("--json", line.json, "print JSON, with every entry");
    command.add_flag("--all", line.all, "every entry of every port");
    command.add_flag("--show-gids", line.show_gids, "print what the tool show_gids prints, for scripts that parse it")
        ->excludes(json);
}

void add_filters(CLI::App& command, GidsFilter& filter) {
    command.add_option("--device", filter.device, "only this HCA")->type_name("NAME");
    command.add_option("--port", filter.port, "only this port number")->type_name("N");
    command
        .add_option_function<std::string>(
            "--version", [&filter](const std::string& text) { filter.version = parse_version(text); },
            "show only entries of this RoCE version; what is used does not change (--set roce=1 does that)")
        ->type_name("v1|v2");
    command
        .add_option_function<std::string>(
            "--family", [&filter](const std::string& text) { filter.family = parse_family(text); },
            "show only entries of this address family; what is used does not change (--set family= does that)")
        ->type_name("ipv4|ipv6");
}

} // namespace

void add_gids_command(CLI::App& app, int& exit_code) {
    auto line = std::make_shared<GidsLine>();
    auto* command =
        app.add_subcommand("gids", "the GIDs of this node's RDMA ports: which are used, and why the others are not");
    add_forms(*command, *line);
    add_filters(*command, line->options.filter);
    add_settings_options(*command, line->settings);
    command->callback([line, &exit_code] { exit_code = run_gids(*line); });
}

} // namespace rdma_nccl
