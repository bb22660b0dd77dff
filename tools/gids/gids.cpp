// SPDX-License-Identifier: Apache-2.0
#include "tools/gids/gids.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/sys/sysroot.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/settings_options.h"
#include "tools/node/node_plan.h"

#include <algorithm>
#include <memory>

namespace rdma_nccl {

namespace {

/// Returns why there is no device: the first related file that could not be read, or that none is there.
std::string no_device_text(const SysRoot& root, const Fabric& fabric) {
    const auto found = std::ranges::find_if(
        fabric.problems, [](const std::string& text) { return text.starts_with("/sys/class/infiniband"); });
    if (found != fabric.problems.end()) {
        return "cannot tell the RDMA devices: " + *found;
    }
    if (!root.exists("/sys/class")) {
        return format_text("no /sys/class below {}; name the directory that holds sys and proc", root.path());
    }
    return "no RDMA device (/sys/class/infiniband is empty or missing); load the driver of the HCA";
}

std::string text_of(const GidsView& view, GidsForm form, const SysRoot& root) {
    return form == GidsForm::Json        ? gids_json(host_name_of(root), view).dump(2) + "\n"
           : form == GidsForm::ShowGids  ? show_gids_text(view)
           : form == GidsForm::FullTable ? gids_full_table(view)
                                         : gids_table(view);
}

int exit_code(const GidsView& view) {
    return view.fabric.hcas.empty() ? exit_cannot_tell : view.choice.used().empty() ? 2 : view.warnings.empty() ? 0 : 1;
}

} // namespace

Result<int> gids_command(const GidsOptions& options) {
    const auto root = SysRoot::open(options.settings.root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    const Fabric fabric = read_fabric(*root);
    const bool has_hcas = !fabric.hcas.empty();
    if (!has_hcas) {
        print_error(no_device_text(*root, fabric));
    } else if (const auto fault = filter_fault(fabric, options.filter); !fault.empty()) {
        return fail(fault);
    }
    const FabricChoice choice = choose_fabric(fabric, options.settings);
    const GidsView view = view_gids(fabric, choice, options.filter);
    for (const auto& warning : view.warnings) {
        print_error("warning: " + warning);
    }
    // Without RDMA devices, programs still get the format they asked for; users get no empty table.
    if (has_hcas || options.form == GidsForm::Json || options.form == GidsForm::ShowGids) {
        print_out(text_of(view, options.form, *root));
    }
    return exit_code(view);
}

namespace {

struct GidsLine {
    GidsOptions options;
    SettingsOptions settings;
    std::string version, family;
    bool json = false;
    bool all = false;
    bool show_gids = false;
};

std::optional<RoceVersion> parse_version(std::string_view text) {
    return text == "v1" || text == "1"   ? std::optional(RoceVersion::V1)
           : text == "v2" || text == "2" ? std::optional(RoceVersion::V2)
                                         : std::nullopt;
}

std::optional<FamilyChoice> parse_family(std::string_view text) {
    return text == "ipv4"   ? std::optional(FamilyChoice::Ipv4)
           : text == "ipv6" ? std::optional(FamilyChoice::Ipv6)
                            : std::nullopt;
}

GidsForm form_of(const GidsLine& line) {
    return line.json        ? GidsForm::Json
           : line.show_gids ? GidsForm::ShowGids
           : line.all       ? GidsForm::FullTable
                            : GidsForm::Table;
}

Result<int> run_gids(GidsLine& line, const Settings& settings) {
    line.options.form = form_of(line);
    line.options.filter.version = parse_version(line.version);
    line.options.filter.family = parse_family(line.family).value_or(FamilyChoice::Auto);
    line.options.settings = settings;
    return gids_command(line.options);
}

void add_filters(const Subcommand& command, GidsLine& line) {
    command.option("--device", line.options.filter.device, "only this HCA").type_name("NAME");
    command.option("--port", line.options.filter.port, "only this port number").type_name("N");
    command
        .option("--version", line.version,
                "show only entries of this RoCE version; what is used does not change (--set roce=1 does that)")
        .type_name("v1|v2")
        .check(
            [](const std::string& text) { return parse_version(text) ? "" : "is v1 or v2, not " + printable(text); });
    command
        .option("--family", line.family,
                "show only entries of this address family; what is used does not change (--set family= does that)")
        .type_name("ipv4|ipv6")
        .check([](const std::string& text) {
            return parse_family(text) ? "" : "is ipv4 or ipv6, not " + printable(text);
        });
}

} // namespace

void add_gids_command(const Subcommand& app, int& exit_code) {
    auto line = std::make_shared<GidsLine>();
    const auto command =
        app.subcommand("gids", "the GIDs of this node's RDMA ports: which are used, and why the others are not");
    const auto json = command.flag("--json", line->json, "print JSON, with every entry");
    command.flag("--all", line->all, "every entry of every port");
    command.flag("--show-gids", line->show_gids, "print what the tool show_gids prints, for scripts that parse it")
        .excludes(json);
    add_filters(command, *line);
    run_with_settings(command, line->settings, exit_code,
                      [line](const Settings& settings) { return run_gids(*line, settings); });
}

} // namespace rdma_nccl
