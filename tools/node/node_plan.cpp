// SPDX-License-Identifier: Apache-2.0
#include "tools/node/node_plan.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "lib/sys/resources.h"

#include <algorithm>
#include <cstdint>
#include <thread>

namespace rdma_nccl {

std::optional<unsigned> slurm_number(const Environment& environment, std::string_view name) {
    return parse_number<unsigned>(environment.get(name).value_or(""));
}

bool set_up_by_plugin(const Environment& environment, const Step& step) {
    return environment.get("SLURM_STEP_ID") && environment.marked_step() == step.name();
}

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

/// The task whose environment `facts` have, as far as Slurm's variables tell; nullopt outside of a step.
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

constexpr std::size_t most_ranks = 4096;

/// Returns the number of this node's tasks if they are the ranks; else one rank per GPU.
std::size_t count_ranks(const NodeFacts& facts, const Plan& plan) {
    const auto node = slurm_number(facts.environment, "SLURM_NODEID");
    const auto& counts = facts.step.tasks_per_node;
    if (plan.layout.layout == Layout::Rank && facts.step.job_id != 0) {
        return node && *node < counts.size() ? counts[*node] : facts.step.most_tasks_per_node();
    }
    return std::max(facts.visible_gpus.count(), 1U);
}

/// Returns the CPUs that each rank may use, from the source with the highest precedence.
Result<std::vector<CpuSet>> find_masks(const NodeFacts& facts, const Plan& plan, Places& places,
                                       const CpuSet& default_cpus, bool live, const RanksWanted& wanted,
                                       std::size_t ranks) {
    if (!wanted.cpus.empty()) {
        auto masks = read_masks(wanted.cpus, ranks);
        if (!masks) {
            return fail(format_text("--cpus \"{}\": a list of CPUs as 0-15,32 is wanted, or one for each of the {} "
                                    "ranks with / between",
                                    printable(wanted.cpus), ranks));
        }
        const CpuSet online = places.topology.cpus();
        CpuSet beyond;
        for (const auto& mask : *masks) {
            beyond |= mask - online;
        }
        if (!online.empty() && !beyond.empty()) {
            return fail(format_text("--cpus \"{}\": the machine has no CPU {}; it has {}", printable(wanted.cpus),
                                    printable(beyond.list(), 60), printable(online.list(), 60)));
        }
        places.masks_source = "--cpus";
        return *masks;
    }
    if (set_up_by_plugin(facts.environment, facts.step) && plan.layout.layout == Layout::Rank) {
        if (auto masks = read_masks(facts.environment.get(masks_variable).value_or(""), ranks)) {
            places.masks_source = "Slurm, as the plugin saw them";
            return *masks;
        }
    }
    const auto own = slurm_number(facts.environment, "SLURM_LOCALID");
    const bool is_task = facts.environment.get("SLURM_STEP_ID") && plan.layout.layout == Layout::Rank && ranks > 1;
    if (is_task && live && own && *own < ranks) {
        std::vector<CpuSet> masks(ranks); // the CPUs of other tasks are unknown here
        masks[*own] = default_cpus;
        return masks;
    }
    return std::vector<CpuSet>(ranks, default_cpus);
}

/// `default_cpus`: the CPUs if no other source gives them; places.masks_source names their source.
Result<Places> place(Places places, const NodeFacts& facts, const Plan& plan, BindChoice bind,
                     const CpuSet& default_cpus, bool live, const RanksWanted& wanted) {
    const std::size_t ranks = wanted.ranks.value_or(count_ranks(facts, plan));
    if (ranks < 1 || ranks > most_ranks) {
        return fail(format_text("--ranks {}: a number from 1 to {} is wanted", ranks, most_ranks));
    }
    auto masks = find_masks(facts, plan, places, default_cpus, live, wanted, ranks);
    if (!masks) {
        return tl::unexpected(masks.error());
    }
    std::optional<TaskView> own;
    const auto local_rank = slurm_number(facts.environment, "SLURM_LOCALID");
    if (set_up_by_plugin(facts.environment, facts.step) && plan.layout.layout == Layout::Rank && local_rank &&
        *local_rank < ranks) {
        own.emplace(view_of_task(*local_rank, facts.environment, facts));
    }
    Plan of_tasks = plan;
    if (wanted.cpus.find('/') != std::string::npos) {
        of_tasks.layout.layout = Layout::Rank; // only tasks have CPUs of their own
    }
    places.placed = place_ranks(facts, of_tasks, bind, places.topology, std::move(*masks), own);
    return places;
}

/// A file only shows which ports are active.
FabricChoice choose_active_ports(const Fabric& fabric) {
    FabricChoice choice;
    for (const auto& hca : fabric.hcas) {
        for (const auto& port : hca.ports) {
            PortChoice& entry = choice.ports.emplace_back();
            entry.hca = hca.name;
            entry.port = port.number;
            const bool active = port.state == "ACTIVE";
            entry.rule = active ? PortRule::Used : PortRule::NotActive;
            entry.reason = active ? "is used: ACTIVE"
                                  : format_text("is {}: left out; NCCL takes active ports only",
                                                port.state.empty() ? "in no known state" : port.state);
        }
    }
    return choice;
}

/// Places the ranks of this process's step; outside a step, as many as the node has GPUs. In a step that the plugin has
/// set up, the result equals the plugin's own plan.
Result<Places> place_here(const NodeFacts& facts, const Plan& plan, const Settings& settings, const RanksWanted& wanted,
                          const Subject& subject) {
    Places places;
    const auto root = SysRoot::open(settings.root);
    auto topology = root ? read_topology(*root) : tl::unexpected(root.error());
    if (topology) {
        places.topology = std::move(*topology);
    } else {
        places.problem = topology.error().message;
    }
    // A site may set another root to emulate devices; the CPUs are then still this machine's.
    const auto given = settings.given.find("root");
    const bool live =
        root && (root->path() == "/" || (given != settings.given.end() && given->second.origin <= Origin::Plugstack));
    places.masks_source = live ? format_text("the affinity mask of {}", subject.name) : "all CPUs of the machine";
    // The plugin leaves no masks if it was told not to bind.
    const bool plugin_binds = !set_up_by_plugin(facts.environment, facts.step) || plan.layout.layout != Layout::Rank ||
                              facts.environment.get(masks_variable) || !wanted.cpus.empty();
    const CpuSet default_cpus = live ? read_affinity(subject.pid) : places.topology.cpus();
    return place(std::move(places), facts, plan, plugin_binds && !plan.cpus_stay ? settings.bind : BindChoice::Off,
                 default_cpus, live, wanted);
}

} // namespace

int NodePlan::exit_code() const {
    if (facts.fabric.hcas.empty()) {
        return 3;
    }
    return plan.fabric.used().empty() && !plan.fabric.is_efa() ? 2 : plan.warnings.empty() ? 0 : 1;
}

Result<NodePlan> plan_node(const SettingsOptions& options, const Settings& settings, std::chrono::milliseconds timeout,
                           const RanksWanted& ranks, GidTables tables, Subject subject) {
    restore_note(subject.environment);
    auto facts = inspect_node(settings, subject.environment, subject.program, timeout, false, tables,
                              subject.pid != 0 ? format_text("/proc/{}/cwd", subject.pid) : "");
    if (!facts) {
        return tl::unexpected(facts.error());
    }
    NodePlan node{settings, std::move(*facts), {}, {}, {}, subject.name};
    node.plan = make_plan(node.facts, settings);
    node.variables = node.plan.variables;
    auto places = place_here(node.facts, node.plan, settings, ranks, subject);
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

Result<NodePlan> plan_by_xml(const std::string& path, const Settings& settings, const RanksWanted& ranks) {
    auto machine = read_topology_xml(path);
    if (!machine) {
        return tl::unexpected(machine.error());
    }
    NodePlan node;
    node.settings = settings;
    node.facts.fabric = std::move(machine->fabric);
    node.facts.visible_gpus = find_visible_gpus({}, [&] { return node.facts.fabric.count_gpus(); });
    node.plan.layout.layout = Layout::Rank;
    node.plan.visible_gpus = node.facts.visible_gpus.count();
    node.plan.fabric = choose_active_ports(node.facts.fabric);
    node.name = machine->name;
    const CpuSet all = machine->topology.cpus();
    return place({std::move(machine->topology), {}, {}, "all CPUs of the machine"}, node.facts, node.plan,
                 settings.bind, all, false, ranks)
        .map([&](Places places) {
            node.places = std::move(places);
            append(node.places.placed.placement.notes, std::move(machine->notes));
            if (auto& ids = node.places.placed.gpu_ids; ids.size() == machine->gpu_ids.size()) {
                ids = std::move(machine->gpu_ids);
            }
            return std::move(node);
        });
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

Result<WatchedNode> WatchedNode::inspect(const SettingsOptions& options, const Settings& settings,
                                         const Environment& environment) {
    auto root = SysRoot::open(settings.root);
    if (!root) {
        return tl::unexpected(root.error());
    }
    auto node = plan_node(options, settings, {}, {}, GidTables::Expected, {.environment = environment});
    if (!node) {
        return tl::unexpected(node.error());
    }
    return WatchedNode{std::move(*root), std::move(*node)};
}

StepWatch WatchedNode::watch(StepProcesses processes) const {
    return watch_step({root, node.facts, node.plan}, processes);
}

StepWatch WatchedNode::watch_own_step(pid_t ancestor) const {
    return watch(StepProcesses::around(root, ::getpid(), node.facts.step, ancestor));
}

NodeEvidence WatchedNode::evidence(StepWatch& watch, const std::string& log_directory) const {
    const auto task = current_task(node.facts);
    return collect_evidence({root, node.facts, node.plan, task ? task->local_tasks : 1, log_directory}, watch,
                            StepWatch::Clock::now());
}

bool wait_for_sample(const StepWatch& watch, int fd, StepWatch::Clock::time_point end) {
    pollfd event{fd, POLLIN, 0};
    return poll_until({&event, 1}, std::min(watch.next_sample(), end)) > 0;
}

} // namespace rdma_nccl
