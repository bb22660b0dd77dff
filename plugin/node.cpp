// SPDX-License-Identifier: Apache-2.0
#include "plugin/node.h"

#include "lib/format.h"
#include "lib/report.h"
#include "lib/text.h"
#include "plugin/step_layout.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace rdma_nccl {

namespace {

void tell(const NodeState& state, std::string_view text) {
    tell_user(format_text("{}: {}", state.facts.host_name, text));
}

/// Carries out a list of variables; false when Slurm refused one.
bool apply_variables(Host& host, const std::vector<Variable>& variables) {
    bool good = true;
    for (const auto& variable : variables) {
        if (variable.action == VariableAction::Set) {
            good = host.set_variable(variable.name, variable.value) && good;
        } else if (variable.action == VariableAction::Unset) {
            good = host.unset_variable(variable.name) && good;
        }
    }
    return good;
}

void mark(Host& host, const NodeState& state, const std::vector<Variable>& variables) {
    (void)host.set_variable(std::string(marker_variable), marker_value(state.facts.step.name(), variables));
}

/// Whether task 0 of the step is on this node. In a heterogeneous step every component has a task 0 of its own here, so
/// the name from the step layout decides, where node names are host names.
bool hosts_rank_zero(const Host& host, const NodeFacts& facts) {
    const auto& nodes = facts.step.nodes;
    const bool named = std::find(nodes.begin(), nodes.end(), facts.host_name) != nodes.end();
    if (named && facts.step.note && facts.head_node.name != facts.host_name) {
        return false;
    }
    const std::uint32_t tasks = host.local_task_count().value_or(0);
    for (std::uint32_t local = 0; local < tasks; ++local) {
        if (host.global_id(local) == 0U) {
            return true;
        }
    }
    return false;
}

/// One line in the normal case, from the head node; a node with a problem of its own says so in one line too.
void report(const NodeState& state) {
    const unsigned verbose = state.settings.verbose;
    if (verbose == 0) {
        return;
    }
    const bool details = verbose >= 3 || (verbose == 2 && state.has_rank_zero);
    if (details) {
        for (const auto& line : plan_lines(state.plan, state.facts.step, {})) {
            tell(state, line);
        }
    } else if (state.has_rank_zero) {
        tell(state, plan_summary(state.plan, state.facts.step));
    }
    if (details) {
        for (const auto& warning : state.warnings) {
            tell(state, "warning: " + warning);
        }
        for (const auto& note : state.plan.notes) {
            tell(state, "note: " + note);
        }
    } else if (!state.warnings.empty()) {
        const std::size_t more = state.warnings.size() - 1;
        tell(state, format_text("warning: {}{}", state.warnings.front(),
                                more == 0 ? "" : format_text(" (and {} more, see --rdma-nccl=verbose=3)", more)));
    }
}

/// A site that has the plugin on for every step has steps that need no RDMA: they hear nothing of it unless they ask.
bool asked_by_user(const Settings& settings) {
    const auto found = settings.given.find("enable");
    return found != settings.given.end() && found->second.origin >= Origin::Environment;
}

std::optional<unsigned> number(const Environment& environment, std::initializer_list<std::string_view> names) {
    for (const auto name : names) {
        if (const auto value = parse_number<unsigned>(environment.get(name).value_or(""))) {
            return value;
        }
    }
    return std::nullopt;
}

TaskFacts task_facts(const NodeState& state, const Host& host, const Environment& now) {
    TaskFacts task;
    // SLURM_PROCID and its like are right from task_init on, and count over all components of a heterogeneous step;
    // S_TASK_GLOBAL_ID does not (facts/spank.md 1.2, 1.6).
    task.rank = number(now, {"SLURM_PROCID"}).value_or(host.task_global_id().value_or(0));
    task.local_rank = number(now, {"SLURM_LOCALID"}).value_or(host.task_local_id().value_or(0));
    task.node_rank = number(now, {"SLURM_NODEID"}).value_or(host.node_id().value_or(0));
    task.local_tasks = host.local_task_count().value_or(1);
    task.task_count = state.facts.step.task_count;
    task.node_count = state.facts.step.node_count;
    task.task_cpus = count_allowed_cpus();
    const unsigned granted = number(now, {"SLURM_CPUS_ON_NODE"}).value_or(state.facts.allowed_cpus);
    task.node_cpus = std::min(state.facts.allowed_cpus, granted);
    task.cpus_per_task = number(now, {"SLURM_CPUS_PER_TASK"}).value_or(0);
    return task;
}

/// Rank 0's own node is the one that can tell whether MASTER_ADDR is right.
std::optional<std::string> verify_rank_zero(const NodeState& state) {
    const auto address = IpAddress::parse(state.plan.master_address());
    if (!address) {
        return std::nullopt; // none, or a name that the user gave: the resolver's business
    }
    return verify_head(*address, state.facts.host_name, state.facts.fabric.netdevs);
}

void tell_task_details(const NodeState& state, const TaskFacts& task, const std::vector<Variable>& variables) {
    if (state.settings.verbose < 3) {
        return;
    }
    std::string text;
    for (const auto& variable : variables) {
        text += format_text(" {}={}", variable.name, variable.value);
    }
    tell(state, format_text("task {}:{}", task.rank, text));
}

/// srun's note reaches the nodes of one component of a heterogeneous step only (srun.c, _launch_one_app). A node
/// without it asks Slurm as srun did; other steps never come here.
void add_missing_note(Environment& environment, const Step& step) {
    if (step.note) {
        return;
    }
    if (const auto rank_zero = find_rank_zero(step.job_id, step.step_id)) {
        environment.set(std::string(note_variable), write_note(make_note(step.job_id, step.step_id, *rank_zero)));
    }
}

} // namespace

std::optional<NodeState> node_start(const Configuration& configuration, Host& host) {
    const auto step_id = host.step_id();
    if (!step_id || *step_id >= first_special_step) {
        return std::nullopt;
    }
    Environment environment = host.environment();
    const Step step = read_step(environment, {});
    (void)host.unset_variable(std::string(note_variable)); // for us, not for the program or a step inside
    const SettingsOutcome outcome = configuration.resolve(environment, step.note);
    if (!outcome.settings.enable) {
        return std::nullopt;
    }
    add_missing_note(environment, step);
    auto facts = inspect_node(outcome.settings, environment, host.program(), usual_patience);
    if (!facts) {
        tell_user(facts.error().message + "; the step runs without rdma-nccl");
        return std::nullopt;
    }
    NodeState state{outcome.settings, std::move(*facts), {}, false, outcome.errors, std::nullopt};
    state.plan = make_plan(state.facts, state.settings);
    if (state.plan.leave_alone) {
        tell_log(state.plan.leave_alone_why);
        return std::nullopt;
    }
    state.has_rank_zero = hosts_rank_zero(host, state.facts);
    if (asked_by_user(state.settings) || state.settings.strict || !state.facts.fabric.hcas.empty()) {
        state.warnings.insert(state.warnings.end(), state.plan.warnings.begin(), state.plan.warnings.end());
    }
    if (!apply_variables(host, state.plan.variables)) {
        state.warnings.emplace_back("Slurm refused to set a variable");
    }
    mark(host, state, state.plan.variables);
    report(state);
    if (state.settings.strict && !state.warnings.empty()) {
        state.strict_fault = state.warnings.front();
    }
    return state;
}

int node_start_task(const NodeState& state, Host& host) {
    const Environment now = host.environment();
    const TaskFacts task = task_facts(state, host, now);
    const auto variables = plan_task(state.plan, task, state.facts.environment);
    auto all = state.plan.variables;
    all.insert(all.end(), variables.begin(), variables.end());
    // Once more for all: a container plugin may have put its image's variables over ours meanwhile
    // (facts/launchers.md 4.5).
    (void)apply_variables(host, all);
    mark(host, state, all);
    tell_task_details(state, task, variables);
    auto fault = state.strict_fault;
    if (task.rank == 0) {
        if (const auto wrong = verify_rank_zero(state)) {
            tell(state, "warning: " + *wrong);
            fault = fault ? fault : wrong;
        }
    }
    if (!state.settings.strict || !fault) {
        return 0;
    }
    if (task.local_rank == 0) {
        tell(state, format_text("strict: the step is ended: {}", *fault));
    }
    return -1;
}

} // namespace rdma_nccl
