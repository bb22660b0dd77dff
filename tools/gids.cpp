// SPDX-License-Identifier: Apache-2.0
#include "tools/gids.h"

#include "lib/root.h"
#include "tools/gids_show.h"
#include "tools/gids_table.h"
#include "tools/print.h"

#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

constexpr int exit_cannot_tell = 3;

std::string host_name(const Root& root) {
    for (const auto* path : {"/proc/sys/kernel/hostname", "/etc/hostname"}) {
        if (const auto name = root.read(path, 256)) {
            return *name;
        }
    }
    return "";
}

std::string text_of(const GidsView& view, GidsForm form, const Root& root) {
    switch (form) {
    case GidsForm::Json:
        return gids_json(host_name(root), view).dump(2) + "\n";
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
        print_error("no RDMA device (/sys/class/infiniband is empty or missing); load the driver of the HCA");
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
