// SPDX-License-Identifier: Apache-2.0
#include "tools/gids.h"

#include "lib/format.h"
#include "lib/root.h"
#include "tools/exit_codes.h"
#include "tools/gids_show.h"
#include "tools/gids_table.h"
#include "tools/node_plan.h"
#include "tools/print.h"

#include <algorithm>
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

} // namespace rdma_nccl
