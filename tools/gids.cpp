// SPDX-License-Identifier: Apache-2.0
#include "tools/gids.h"

#include "lib/format.h"
#include "lib/root.h"
#include "lib/text.h"
#include "tools/commands.h"
#include "tools/exit_codes.h"
#include "tools/gids_output.h"
#include "tools/node_plan.h"
#include "tools/print.h"
#include "tools/settings_options.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

/// Why there is no device: the first thing about it that could not be read, or that there is none.
std::string no_device_text(const Root& root, const Fabric& fabric) {
    const auto about_hcas = [](const std::string& text) { return text.find("/sys/class/infiniband") == 0; };
    const auto found = std::find_if(fabric.problems.begin(), fabric.problems.end(), about_hcas);
    if (found != fabric.problems.end()) {
        return "cannot tell the RDMA devices: " + *found;
    }
    if (!root.exists("/sys/class")) {
        return format_text("no /sys/class below {}; name the directory that holds sys and proc", root.path());
    }
    return "no RDMA device (/sys/class/infiniband is empty or missing); load the driver of the HCA";
}

std::string text_of(const GidsView& view, GidsForm form, const Root& root) {
    switch (form) {
    case GidsForm::Json:
        return gids_json(host_name_of(root), view).dump(2) + "\n";
    case GidsForm::ShowGids:
        return show_gids_text(view);
    case GidsForm::FullTable:
        return gids_full_table(view);
    case GidsForm::Table:
        break;
    }
    return gids_table(view);
}

/// A program gets the form that it asked for on a node without RDMA too; people need no table of nothing.
bool is_for_programs(GidsForm form) {
    return form == GidsForm::Json || form == GidsForm::ShowGids;
}

int exit_code(const GidsView& view) {
    if (view.fabric.hcas.empty()) {
        return exit_cannot_tell;
    }
    if (view.choice.used().empty()) {
        return 2;
    }
    return view.warnings.empty() ? 0 : 1;
}

} // namespace

int gids_command(const GidsOptions& options) {
    const auto root = Root::open(options.root);
    if (!root) {
        print_error(root.error().message);
        return exit_cannot_tell;
    }
    const Fabric fabric = read_fabric(*root);
    const bool has_hcas = !fabric.hcas.empty();
    if (!has_hcas) {
        print_error(no_device_text(*root, fabric));
    } else if (const auto fault = filter_fault(fabric, options.filter); !fault.empty()) {
        print_error(fault);
        return exit_cannot_tell;
    }
    const FabricChoice choice = choose_fabric(fabric, options.settings);
    const GidsView view = view_gids(fabric, choice, options.filter);
    for (const auto& warning : view.warnings) {
        print_error("warning: " + warning);
    }
    if (has_hcas || is_for_programs(options.form)) {
        print_out(text_of(view, options.form, *root));
    }
    return exit_code(view);
}

namespace {

struct GidsLine {
    GidsOptions options;
    SettingsOptions settings;
    bool json = false;
    bool all = false;
    bool show_gids = false;
};

GidsForm form_of(const GidsLine& line) {
    return line.json        ? GidsForm::Json
           : line.show_gids ? GidsForm::ShowGids
           : line.all       ? GidsForm::FullTable
                            : GidsForm::Table;
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
