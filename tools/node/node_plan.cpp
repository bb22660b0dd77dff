// SPDX-License-Identifier: Apache-2.0
#include "tools/node/node_plan.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/evidence/step_watch.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// Restores srun's note inside a step that the plugin has set up. The note is gone, but the variables made from it show
/// where the ranks meet.
void restore_note(Environment& environment) {
    const Step step = read_step(environment, {});
    if (set_up_by_plugin(environment, step) && environment.ours().contains("MASTER_ADDR")) {
        const auto port = parse_number<std::uint16_t>(environment.get("MASTER_PORT").value_or(""));
        environment.set(
            std::string(note_variable),
            format_note({step.job_id, step.step_id, "", *environment.get("MASTER_ADDR"), port.value_or(0), ""}));
    }
}

/// Inside such a step the plugin's values count, whatever settings it had, because all ranks have them.
void take_plugins_values(std::vector<Variable>& variables, const NodeFacts& facts) {
    const Environment& environment = facts.environment;
    if (!set_up_by_plugin(environment, facts.step)) {
        return;
    }
    for (const auto& name : environment.ours()) {
        const Variable set{name, environment.get(name).value_or(""), "plugin", "set for this step",
                           VariableAction::Set};
        Variable* const found = find_by(variables, &Variable::name, name);
        if (found == nullptr) {
            variables.push_back(set);
        } else if (found->value != set.value || found->action == VariableAction::Unset ||
                   found->action == VariableAction::Leave) {
            *found = set;
        }
    }
}

} // namespace

std::optional<TaskFacts> current_task(const NodeFacts& facts) {
    const auto rank = slurm_number(facts.environment, "SLURM_PROCID");
    const auto node = slurm_number(facts.environment, "SLURM_NODEID");
    if (!rank || !node || !facts.environment.get("SLURM_STEP_ID")) {
        return std::nullopt;
    }
    const auto& counts = facts.step.tasks_per_node;
    const unsigned local_tasks = *node < counts.size() ? counts[*node] : 1;
    return task_facts({.rank = *rank,
                       .node_rank = *node,
                       .local_tasks = local_tasks,
                       .task_count = facts.step.task_count,
                       .node_count = facts.step.node_count,
                       .task_cpus = facts.allowed_cpus,
                       .node_cpus = std::max(std::thread::hardware_concurrency(), 1U)},
                      facts.environment);
}

int NodePlan::exit_code() const {
    if (facts.fabric.hcas.empty()) {
        return 3;
    }
    return plan.fabric.used().empty() ? 2 : plan.warnings.empty() ? 0 : 1;
}

Result<NodePlan> plan_node(const SettingsOptions& options, const Settings& settings, std::chrono::milliseconds timeout,
                           const RanksWanted& ranks, GidTables tables, Environment environment) {
    restore_note(environment);
    auto facts = inspect_node(settings, environment, {}, timeout, false, tables);
    if (!facts) {
        return tl::unexpected(facts.error());
    }
    NodePlan node{settings, std::move(*facts), {}, {}, {}};
    node.plan = make_plan(node.facts, settings);
    node.variables = node.plan.variables;
    auto places = place_here(node.facts, node.plan, settings, ranks);
    if (!places) {
        return tl::unexpected(places.error());
    }
    node.places = std::move(*places);
    if (const auto task = current_task(node.facts)) {
        const bool placed = task->local_rank < node.places.placed.placement.ranks.size();
        override_variables(node.variables,
                           plan_task(node.plan, *task, node.facts.environment, placed ? &node.places.placed : nullptr));
    }
    if (!options.set) {
        take_plugins_values(node.variables, node.facts);
    }
    return node;
}

std::string host_name_of(const SysRoot& root) {
    for (const auto* path : {"/proc/sys/kernel/hostname", "/etc/hostname"}) {
        if (auto name = root.read(path, 256)) {
            return std::move(*name);
        }
    }
    return "";
}

std::string node_name_of(const Environment& environment, const Settings& settings) {
    if (auto name = environment.get("SLURMD_NODENAME"); name && !name->empty()) {
        return *name;
    }
    const auto root = SysRoot::open(settings.root);
    return root ? host_name_of(*root) : "";
}

Result<WatchedNode> WatchedNode::inspect(const SettingsOptions& options, const Environment& environment) {
    const auto settings = settings_from(options);
    if (!settings) {
        return tl::unexpected(settings.error());
    }
    auto root = SysRoot::open(settings->root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    auto node = plan_node(options, *settings, {}, {}, GidTables::Expected, environment);
    if (!node) {
        return tl::unexpected(node.error());
    }
    return WatchedNode{std::move(*root), std::move(*node)};
}

StepWatch WatchedNode::watch(StepProcesses processes) const {
    return watch_step({root, node.facts, node.plan}, processes);
}

NodeEvidence WatchedNode::evidence(StepWatch& watch, const std::string& log_directory) const {
    const auto task = current_task(node.facts);
    return collect_evidence({root, node.facts, node.plan, task ? task->local_tasks : 1, log_directory}, watch);
}

bool wait_for_sample(const StepWatch& watch, int fd, StepWatch::Clock::time_point end) {
    pollfd event{fd, POLLIN, 0};
    return poll_until({&event, 1}, std::min(watch.next_sample(), end)) > 0;
}

} // namespace rdma_nccl
