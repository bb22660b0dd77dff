// SPDX-License-Identifier: Apache-2.0
// rdma-nccl env: prints the variables for this node, for interactive shells.
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/settings_options.h"
#include "tools/node/node_plan.h"

#include <memory>

namespace rdma_nccl {

namespace {

struct EnvOptions {
    SettingsOptions settings;
    bool json = false;
};

/// Quotes for a POSIX shell with single quotes, in which only the quote itself is special.
std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
}

void print_exports(const Step& step, const std::vector<Variable>& variables) {
    for (const auto& variable : variables) {
        if (variable.action == VariableAction::Set) {
            print_out(format_text("export {}={}\n", variable.name, shell_quoted(variable.value)));
        } else if (variable.action == VariableAction::Unset) {
            print_out(format_text("unset {}\n", variable.name));
        }
    }
    print_out(format_text("export {}={}\n", marker_variable, shell_quoted(marker_value(step.name(), variables))));
}

void print_json(const std::vector<Variable>& variables, const std::vector<std::string>& warnings) {
    auto list = Json::array();
    for (const auto& variable : variables) {
        if (variable.action == VariableAction::Set || variable.action == VariableAction::Keep) {
            list.push_back({{"name", variable.name},
                            {"value", variable.value},
                            {"source", variable.source},
                            {"why", variable.why}});
        }
    }
    const Json document = {{"schema", 1}, {"variables", list}, {"warnings", warnings}};
    print_out(document.dump(2) + "\n");
}

Result<int> run_env(const EnvOptions& options, const Settings& settings) {
    return plan_node(options.settings, settings).map([&options](const NodePlan& node) {
        if (options.json) {
            print_json(node.variables, node.plan.warnings);
        } else {
            print_exports(node.facts.step, node.variables);
            for (const auto& warning : node.plan.warnings) {
                print_error("warning: " + warning);
            }
        }
        return node.exit_code();
    });
}

} // namespace

void add_env_command(const Subcommand& app, int& exit_code) {
    auto options = std::make_shared<EnvOptions>();
    const auto command =
        app.subcommand("env", "print the variables for this node as export lines: eval \"$(rdma-nccl env)\"");
    command.flag("--json", options->json, "print JSON, with the source of each value");
    run_with_settings(command, options->settings, exit_code,
                      [options](const Settings& settings) { return run_env(*options, settings); });
}

} // namespace rdma_nccl
