// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include "lib/base/format.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"

#include <memory>

namespace rdma_nccl {

namespace {

struct ExplainOptions {
    SettingsOptions settings;
    bool json = false;
    std::string save;
};

Result<int> run_explain(const ExplainOptions& options, const Settings& settings) {
    const auto root = SysRoot::open(settings.root);
    const auto node = root ? plan_node(options.settings, settings, usual_timeout, {}, GidTables::Whole)
                           : tl::unexpected(root.error());
    if (!node) {
        return tl::unexpected(node.error());
    }
    const std::string host = host_name_of(*root);
    if (options.save.empty()) {
        print_out(options.json ? explain_json(*node, host).dump(2) + "\n" : explain_text(*node, host));
        return node->exit_code();
    }
    return save_bundle(options.save, *node, options.settings.site_file, host).map([&](std::size_t files) {
        print_error(format_text("saved {} files of this machine in {}; review them before you share them", files,
                                options.save));
        return node->exit_code();
    });
}

} // namespace

void add_explain_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<ExplainOptions>();
    const auto command =
        app.subcommand("explain", "the plan of this node: every decision with its reason, nothing is run");
    command.flag("--json", options->json, "print JSON");
    command
        .option("--save", options->save,
                "write the files that were read, and the plan, below DIR, to be looked at elsewhere (--root DIR)")
        .type_name("DIR")
        .not_empty();
    run_with_settings(command, options->settings, exit_code,
                      [options](const Settings& settings) { return run_explain(*options, settings); });
}

} // namespace rdma_nccl
