// SPDX-License-Identifier: Apache-2.0
#include "tools/env.h"

#include "lib/format.h"
#include "lib/inspect.h"
#include "lib/plan.h"
#include "lib/text.h"
#include "tools/json.h"
#include "tools/print.h"
#include "tools/settings_options.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace rdma_nccl {

namespace {

struct EnvOptions {
    SettingsOptions settings;
    bool json = false;
};

/// In single quotes for a POSIX shell; nothing inside is special but the quote itself.
std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
}

/// The task that this process is in, as far as Slurm's variables tell; nullopt outside of a step.
std::optional<TaskFacts> current_task(const NodeFacts& facts) {
    const auto number = [&facts](std::string_view name) {
        return parse_number<unsigned>(facts.environment.get(name).value_or(""));
    };
    const auto rank = number("SLURM_PROCID");
    const auto node = number("SLURM_NODEID");
    if (!rank || !node || !facts.environment.get("SLURM_STEP_ID")) {
        return std::nullopt;
    }
    TaskFacts task;
    task.rank = *rank;
    task.local_rank = number("SLURM_LOCALID").value_or(0);
    task.node_rank = *node;
    const auto& counts = facts.step.tasks_per_node;
    task.local_tasks = *node < counts.size() ? counts[*node] : 1;
    task.task_count = facts.step.task_count;
    task.node_count = facts.step.node_count;
    task.task_cpus = facts.allowed_cpus;
    task.node_cpus = number("SLURM_CPUS_ON_NODE").value_or(facts.allowed_cpus);
    task.cpus_per_task = number("SLURM_CPUS_PER_TASK").value_or(0);
    return task;
}

bool set_up_by_plugin(const Environment& environment, const Step& step) {
    return environment.get("SLURM_STEP_ID") && environment.marked_step() == step.name();
}

/// Inside a step that the plugin has set up, where the ranks meet is known: srun's note is gone, but what came of it is
/// not.
void restore_note(Environment& environment) {
    const Step step = read_step(environment, {});
    if (set_up_by_plugin(environment, step) && environment.ours().contains("MASTER_ADDR")) {
        const auto port = parse_number<std::uint16_t>(environment.get("MASTER_PORT").value_or(""));
        environment.set(
            std::string(note_variable),
            write_note({step.job_id, step.step_id, "", *environment.get("MASTER_ADDR"), port.value_or(0), ""}));
    }
}

/// There, the plugin's values are the step's, whatever settings it had: all ranks have them.
void take_plugins_values(std::vector<Variable>& variables, const NodeFacts& facts) {
    const Environment& environment = facts.environment;
    if (!set_up_by_plugin(environment, facts.step)) {
        return;
    }
    for (const auto& name : environment.ours()) {
        const Variable set{name, environment.get(name).value_or(""), "plugin", "set for this step",
                           VariableAction::Set};
        const auto found =
            std::find_if(variables.begin(), variables.end(), [&](const Variable& v) { return v.name == name; });
        if (found == variables.end()) {
            variables.push_back(set);
        } else if (found->value != set.value || found->action == VariableAction::Unset ||
                   found->action == VariableAction::Leave) {
            *found = set;
        }
    }
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
    nlohmann::json list = nlohmann::json::array();
    for (const auto& variable : variables) {
        if (variable.action == VariableAction::Set || variable.action == VariableAction::Keep) {
            list.push_back({{"name", json_text(variable.name)},
                            {"value", json_text(variable.value)},
                            {"source", json_text(variable.source)},
                            {"why", json_text(variable.why)}});
        }
    }
    nlohmann::json texts = nlohmann::json::array();
    for (const auto& warning : warnings) {
        texts.push_back(json_text(warning));
    }
    const nlohmann::json document = {{"schema", 1}, {"variables", list}, {"warnings", texts}};
    print_out(document.dump(2) + "\n");
}

int run_env(const EnvOptions& options) {
    const auto settings = settings_from(options.settings);
    if (!settings) {
        print_error(settings.error().message);
        return 2;
    }
    auto environment = Environment::from(environ);
    restore_note(environment);
    const auto facts = inspect_node(*settings, environment, {});
    if (!facts) {
        print_error(facts.error().message);
        return 3;
    }
    const Plan plan = make_plan(*facts, *settings);
    std::vector<Variable> variables = plan.variables;
    if (const auto task = current_task(*facts)) {
        const auto more = plan_task(plan, *task, facts->environment);
        variables.insert(variables.end(), more.begin(), more.end());
    }
    if (!options.settings.set) { // who gives settings wants to see what they do
        take_plugins_values(variables, *facts);
    }
    if (options.json) {
        print_json(variables, plan.warnings);
    } else {
        print_exports(facts->step, variables);
        for (const auto& warning : plan.warnings) {
            print_error("warning: " + warning);
        }
    }
    if (facts->fabric.hcas.empty()) {
        return 3;
    }
    return plan.fabric.used().empty() ? 2 : plan.warnings.empty() ? 0 : 1;
}

} // namespace

void add_env_command(CLI::App& app, int& exit_code) {
    auto options = std::make_shared<EnvOptions>();
    auto* command =
        app.add_subcommand("env", "print the variables for this node as export lines: eval \"$(rdma-nccl env)\"");
    command->add_flag("--json", options->json, "print JSON, with the source of each value");
    add_settings_options(*command, options->settings);
    command->callback([options, &exit_code] { exit_code = run_env(*options); });
}

} // namespace rdma_nccl
