// SPDX-License-Identifier: Apache-2.0
#include "plugin/stepd.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/sys/resources.h"
#include "lib/topology/sysfs_topology.h"

namespace rdma_nccl {

namespace {

/// Slurm numbers cores socket by socket, as the tree does. Returns an empty set if the step has a core that the tree
/// lacks: the node is configured with other cores than it has.
CpuSet cpus_of_cores(const std::string& list, const Topology& topology) {
    CpuSet cpus;
    const auto numbers = CpuSet::parse_list(list);
    for (const unsigned core : numbers ? numbers->cpus() : std::vector<unsigned>()) {
        if (core >= topology.cores.size()) {
            return {};
        }
        cpus |= topology.cores[core].cpus;
    }
    return cpus;
}

/// Returns the CPUs that Slurm lets each task use. Without cpusets and task/affinity a mask has more than the step was
/// given, even other jobs' cores: then uses the step's cores instead.
std::vector<CpuSet> allowed_masks(const NodeState& state) {
    auto masks = state.masks->all();
    for (auto& mask : masks) {
        if (!state.step_cpus.empty() && mask.contains(state.step_cpus)) {
            mask = state.step_cpus;
        }
    }
    return masks;
}

} // namespace

std::optional<TaskMasks> TaskMasks::create(std::size_t tasks) {
    const auto memory = shared_memory(tasks * sizeof(Words));
    return memory ? std::optional(TaskMasks({memory, static_cast<Words*>(memory.get())}, tasks)) : std::nullopt;
}

void TaskMasks::record(std::size_t local_id, pid_t pid) {
    if (local_id < tasks_) {
        const CpuSet mask = read_affinity(pid);
        auto& words = memory_[static_cast<std::ptrdiff_t>(local_id)];
        words.fill(0);
        std::ranges::copy(mask.words(), words.begin());
    }
}

void prepare_placement(NodeState& state, const SpankHandle& host) {
    if (state.plan.layout.layout != Layout::Rank) {
        return;
    }
    state.masks = TaskMasks::create(host.local_task_count().value_or(0));
    const auto root = SysRoot::open(state.settings.root);
    auto topology = root ? read_sysfs_topology(*root) : tl::unexpected(root.error());
    if (!topology) {
        state.plan.notes.push_back("ranks are not bound: " + topology.error().message);
        report_to_log(state.plan.notes.back());
        return;
    }
    state.step_cpus = cpus_of_cores(host.step_cores(), *topology);
    state.topology = std::move(*topology);
}

std::optional<NodePlacement> place_task(const NodeState& state, const TaskFacts& task, const Environment& now) {
    if (!state.masks) {
        return std::nullopt;
    }
    auto masks = allowed_masks(state);
    if (task.local_rank >= masks.size()) {
        return std::nullopt;
    }
    // Another plugin may have bound the task after Slurm: keep that choice.
    const bool as_slurm_left_it = state.masks->all()[task.local_rank] == read_affinity();
    const bool may_bind = as_slurm_left_it && !state.plan.cpus_stay;
    const Topology unknown;
    return place_ranks(state.facts, state.plan, may_bind ? state.settings.bind : BindChoice::Off,
                       state.topology ? *state.topology : unknown, std::move(masks),
                       view_of_task(task.local_rank, now, state.facts));
}

void bind_task(const NodeState& state, const TaskFacts& task, const NodePlacement& placed) {
    const auto bound = bind_self(binding_of(placed, placed.own));
    const unsigned verbose = state.settings.verbose;
    if (!bound && (verbose >= 3 || (verbose >= 1 && task.local_rank == 0))) { // the other tasks have the same problem
        state.warn(format_text("task {} {}", task.rank, bound.error().message));
    }
}

std::vector<std::string> judge_placement(const NodeState& state, const TaskFacts& task, const Environment& now,
                                         const std::optional<NodePlacement>& placed) {
    std::vector<std::string> warnings;
    const auto view = view_of_task(task.local_rank, now, state.facts);
    if (auto isolation = judge_isolation(state.facts, view.gpus, task.local_tasks)) {
        warnings.push_back(std::move(*isolation));
    }
    const bool by_task = state.plan.layout.layout == Layout::Rank;
    const std::size_t ranks = by_task ? task.local_tasks : state.plan.visible_gpus;
    CpuSet cpus;
    if (by_task && state.masks) {
        for (const auto& mask : allowed_masks(state)) {
            cpus |= mask;
        }
    } else {
        cpus = read_affinity();
    }
    auto scarce = state.facts.visible_gpus.count() > 0 ? judge_cpus(now, ranks, cpus.size()) : std::nullopt;
    if (scarce) {
        warnings.push_back(std::move(*scarce));
    } else if (placed) {
        append(warnings, placed->placement.warnings);
    }
    return warnings;
}

} // namespace rdma_nccl
