// SPDX-License-Identifier: Apache-2.0
// The tasks of a step, from the fork of the first to the end of the last, and the end of the step on this node.
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/nccl_log/reader.h"
#include "lib/net/listeners.h"
#include "plugin/stepd.h"

#include <functional>

namespace rdma_nccl {

namespace {

constexpr std::chrono::milliseconds files_timeout(5000);
constexpr const char* installed_command = BINDIR "/rdma-nccl";

// SLURM_PROCID and its like are right from task_init on; S_TASK_GLOBAL_ID does not count over all components of a
// heterogeneous step (doc/facts/spank-callbacks.md).
TaskFacts task_facts(const NodeState& state, const SpankHandle& host, const Environment& now) {
    return task_facts({.rank = host.task_global_id().value_or(0),
                       .local_rank = host.task_local_id().value_or(0),
                       .node_rank = host.node_id().value_or(0),
                       .local_tasks = host.local_task_count().value_or(1),
                       .task_count = state.facts.step.task_count,
                       .node_count = state.facts.step.node_count,
                       .task_cpus = count_allowed_cpus(),
                       .node_cpus = state.facts.allowed_cpus},
                      now);
}

/// Only rank 0's own node can tell whether MASTER_ADDR is right.
std::optional<std::string> verify_rank_zero(const NodeState& state) {
    const auto address = IpAddress::parse(state.plan.master_address());
    return address ? verify_head(*address, state.facts.host_name, state.facts.fabric.netdevs)
                   : std::nullopt; // none, or a name that the user gave: up to the resolver
}

/// Returns the variables of this task alone: its ranks and their places.
std::vector<Variable> own_variables(const NodeState& state, const TaskFacts& task,
                                    const std::optional<NodePlacement>& placed) {
    auto variables = plan_task(state.plan, task, state.facts.environment, placed ? &*placed : nullptr);
    if (placed && placed->binds_cpus) {
        variables.push_back({std::string(masks_variable), write_masks(placed->masks), "slurm",
                             "the CPUs that Slurm gave the tasks", VariableAction::Set});
    }
    return variables;
}

/// Takes back what a setting has added where a task does not see its files: the job has its own /tmp
/// (job_container/tmpfs, a container). NCCL would write its logs to standard output then. Says so once for the node.
void withdraw_unseen(const NodeState& state, const TaskFacts& task, std::vector<Variable>& variables) {
    struct Use {
        std::string_view setting; ///< Variable::why of what it has added
        const std::string& directory;
        std::string_view what;
    };
    const auto uses = std::to_array<Use>({{"verify=full", state.log_directory, "NCCL's logs"},
                                          {"profile=on", state.profiles_directory, "counters of NCCL"},
                                          {"profile=inspector", state.kept_directory, "NVIDIA's Inspector"},
                                          {"recorder=on", state.kept_directory, "PyTorch's flight recorder"}});
    for (const auto& use : uses) {
        auto ours = selected(state.plan.variables, [&](const Variable& variable) {
            return variable.why == use.setting && variable.action == VariableAction::Set;
        });
        const auto* const plugin = find_variable(ours, "NCCL_PROFILER_PLUGIN");
        const bool sees_directory = ::access(use.directory.c_str(), W_OK) == 0;
        if (ours.empty() || (sees_directory && (plugin == nullptr || ::access(plugin->value.c_str(), R_OK) == 0))) {
            continue;
        }
        const auto why = format_text("the tasks do not see {}", sees_directory ? plugin->value : use.directory);
        for (auto& variable : ours) {
            variable = {std::move(variable.name), {}, "setting", why, VariableAction::Unset};
        }
        override_variables(variables, std::move(ours));
        if (task.local_rank == 0) {
            state.warn(format_text("{}: without {} ({})", why, use.what, use.setting));
        }
    }
}

/// With verbose=3.
void report_variables(const NodeState& state, const TaskFacts& task, const std::vector<Variable>& variables) {
    if (state.settings.verbose < 3) {
        return;
    }
    std::string text;
    for (const auto& variable : variables) {
        text += format_text(" {}={}", variable.name, variable.value);
    }
    state.report(format_text("task {}:{}", task.rank, text));
}

/// Reports what concerns all tasks once, from task 0. With verbose=3 also reports each task's place.
void report_placement(const NodeState& state, const TaskFacts& task, const Environment& now,
                      const std::optional<NodePlacement>& placed) {
    if (task.rank == 0 && state.settings.verbose >= 1 && state.concerns_rdma()) {
        for (const auto& warning : judge_placement(state, task, now, placed)) {
            state.warn(warning);
        }
    }
    if (!placed || state.settings.verbose < 2) {
        return;
    }
    const auto& ranks = placed->placement.ranks;
    for (const auto& note : task.local_rank == 0 ? placed->placement.notes : std::vector<std::string>()) {
        state.report("note: " + note);
    }
    if (state.settings.verbose >= 3) {
        state.report(
            format_text("task {}: {}", task.rank, rank_text(*placed, state.facts.fabric, ranks.at(placed->own))));
    } else if (task.rank == 0) {
        state.report(format_text("places: {}", binding_why(*placed)));
        for (const auto& line : placement_lines(*placed, state.facts.fabric)) {
            state.report(line);
        }
    }
}

std::optional<std::string> find_command(const Environment& environment) {
    if (::access(installed_command, X_OK) == 0) {
        return installed_command;
    }
    const auto path = environment.get("PATH").value_or("");
    for (const auto directory : split(path, ':')) {
        auto file = format_text("{}/rdma-nccl", directory);
        if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return std::nullopt;
}

/// Returns the path by which the task starts the command: the static one (tools/static) by its descriptor, which works
/// in every container; else the one that was installed with the plugin, or the first one in the task's PATH.
std::optional<std::string> launcher_path(const NodeState& state, const Environment& now) {
    return state.launcher ? std::optional(format_text("/proc/self/fd/{}", state.launcher.get())) : find_command(now);
}

/// Puts `rdma-nccl run` in front of the program. On failure returns why the task must not run: it would be
/// one rank instead of one per GPU.
std::optional<std::string> spawn_ranks(const NodeState& state, const TaskFacts& task, const Environment& now,
                                       SpankHandle& host) {
    if (task.local_tasks > 1) {
        return too_many_tasks_to_spawn(task.task_count, task.node_count);
    }
    if (!SpankHandle::can_prepend()) {
        return std::string(spawn_needs_newer_slurm);
    }
    if (now.get("SLURM_CONTAINER")) { // by srun --container, or left over from sbatch --container: nothing else tells
        return "spawn=on: Slurm's own containers (--container) start no program of the node: put rdma-nccl into the "
               "bundle, and type: srun --rdma-nccl ... rdma-nccl run PROGRAM. If this step has none, unset "
               "SLURM_CONTAINER, which the job has from its batch script";
    }
    const auto command = launcher_path(state, now);
    if (!command) {
        return format_text("spawn=on: rdma-nccl is neither {} nor in PATH here: install it on this node, or in the "
                           "container's image",
                           installed_command);
    }
    if (!host.prepend({*command, "run", "--"})) {
        return "spawn=on: Slurm refused to put rdma-nccl run in front of the program";
    }
    return std::nullopt;
}

/// Returns true if strict ends the step here, and says why.
bool is_ended_by_strict(const NodeState& state, const TaskFacts& task, const std::optional<std::string>& in_container) {
    auto fault = state.strict_fault ? state.strict_fault : in_container;
    if (const auto wrong = task.rank == 0 ? verify_rank_zero(state) : std::nullopt) {
        state.warn(*wrong);
        fault = fault ? fault : wrong;
    }
    if (!state.settings.strict || !fault) {
        return false;
    }
    const bool is_reported = state.strict_fault && state.reported_by_srun; // srun says a fault of the plan
    if (task.local_rank == 0 && (!is_reported || state.has_rank_zero)) {
        state.report(format_text("strict: the step is ended: {}", *fault));
    }
    return true;
}

/// Runs `work` in a child as the user, for good: the user may change these files at any time.
void run_as_user(const StepUser& user, const std::function<void()>& work) {
    (void)run_in_child(files_timeout, [&] {
        if (become(user)) {
            work();
        }
    });
}

} // namespace

void prepare_task(NodeState& state, const SpankHandle& host) {
    const bool first = host.task_local_id().value_or(0) == 0; // the others have the same problem
    if (state.plan.layout.spawn) {
        state.launcher = open_launcher();
    }
    if (state.settings.memlock == MemlockChoice::Raise) {
        if (const auto raised = raise_memlock(); !raised && first) {
            state.warn(format_text("memlock=raise: {}", raised.error().message));
        }
    }
    const auto mounted = state.etc_hosts ? mount_etc_hosts(*state.etc_hosts) : Result<void>();
    if (!mounted && first) {
        state.warn(format_text("hosts=mount: {}: the tasks see the node's own /etc/hosts", mounted.error().message));
    }
}

void note_task(NodeState& state, const SpankHandle& host) {
    if (state.sockets.ours()) {
        open_for_reuse(state.sockets.held_ports); // the tasks, which may listen there, still wait
    }
    const auto local_id = host.task_local_id();
    const auto pid = host.task_pid();
    if (state.masks && local_id && pid) {
        state.masks->record(*local_id, *pid);
    }
    const bool watches_ports = state.settings.strict && state.has_rank_zero;
    const bool wanted = state.settings.verify != VerifyChoice::Off || watches_ports;
    if (wanted && !state.evidence && state.sockets.srun && state.sockets.ours()) {
        if (auto process = EvidenceProcess::start(state, *state.sockets.srun)) {
            state.evidence.emplace(std::move(*process));
        }
    }
}

int start_task(const NodeState& state, SpankHandle& host) {
    const Environment now = host.environment();
    const TaskFacts task = task_facts(state, host, now);
    const auto placed = place_task(state, task, now);
    if (placed) {
        bind_task(state, task, *placed);
    }
    const auto own = own_variables(state, task, placed);
    auto all = state.variables();
    override_variables(all, own);
    auto settled = settle_task(state, host, task, now, std::move(all));
    all = std::move(settled.variables);
    withdraw_unseen(state, task, all);
    // Once more for all: by now a container plugin may have replaced our values by its image's.
    (void)set_variables(host, state, now, all);
    report_variables(state, task, own);
    report_placement(state, task, now, placed);
    if (const auto refused = state.plan.layout.spawn ? spawn_ranks(state, task, now, host) : std::nullopt) {
        if (task.local_rank == 0) {
            state.report(*refused);
        }
        return -1;
    }
    return is_ended_by_strict(state, task, settled.fault) ? -1 : 0;
}

void end_task(NodeState& state) {
    if (state.running_tasks > 0) {
        --state.running_tasks;
    }
    if (state.running_tasks > 0 || !state.sockets.srun || !state.sockets.ours()) {
        return;
    }
    if (state.evidence) {
        state.evidence->end_step(*state.sockets.srun);
    }
    state.sockets.srun.reset();
}

void end_node(NodeState& state) {
    if (state.evidence && state.sockets.srun && state.sockets.ours()) { // tasks that never ran have not ended
        state.sockets.srun->hang_up();
    }
    state.evidence.reset();
    if (state.etc_hosts) {
        (void)::unlink(state.etc_hosts->path.c_str()); // if a task has made it
    }
    for (const auto* const directory : {&state.log_directory, &state.profiles_directory}) {
        if (!directory->empty()) {
            run_as_user(state.user, [directory] { remove_log_directory(*directory); });
        }
    }
    if (!state.kept_directory.empty()) {
        run_as_user(state.user, [&state] { (void)::rmdir(state.kept_directory.c_str()); }); // if nothing is in it
    }
    if (state.hosts_files && state.sockets.ours()) {
        run_as_user(state.user, [&state] { remove_hosts_files(*state.hosts_files); });
    }
}

} // namespace rdma_nccl
