// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/node_placement.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <set>

namespace rdma_nccl {

namespace {

using Positions = std::vector<std::optional<std::size_t>>;

bool ascends(const std::vector<std::string>& ids) {
    const auto number = [](const std::string& id) { return parse_number<unsigned>(id); };
    return std::ranges::all_of(ids, [&](const auto& id) { return number(id).has_value(); }) &&
           std::ranges::is_sorted(ids, {}, number);
}

/// Returns the variable whose order LOCAL_RANK counts in. The entries of HIP's list are indices into ROCR's.
std::string order_variable(const NodeFacts& facts, const Positions& gpus) {
    const bool amd = std::ranges::any_of(
        gpus, [&](const auto& position) { return position && facts.fabric.gpus.at(*position).vendor == "amd"; });
    return amd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
}

bool are_gpus_listed(const NodeFacts& facts) {
    return facts.environment.get("CUDA_VISIBLE_DEVICES") || facts.environment.get("HIP_VISIBLE_DEVICES") ||
           facts.environment.get("ROCR_VISIBLE_DEVICES");
}

/// Returns true if nobody chose the present order: it is Slurm's own, or there is no list of GPUs and naming all of
/// them changes nothing.
bool may_reorder(const NodeFacts& facts, const Plan& plan, const NodePlacement& node) {
    const bool slurms = facts.environment.get("SLURM_STEP_GPUS") || facts.environment.get("SLURM_GPUS_ON_NODE");
    // The ids must be those of the variable that will change: HIP's are indices into ROCR's list.
    const bool listed = facts.visible_gpus.source.starts_with(node.order_variable + "=");
    return plan.layout.layout == Layout::Rank && ascends(node.gpu_ids) &&
           (listed ? slurms : !are_gpus_listed(facts) && node.gpu_ids.size() == facts.fabric.count_gpus());
}

/// Returns false if only the number of GPUs is known and is less than all: then they may be any of them.
bool are_gpus_known(const NodeFacts& facts) {
    return are_gpus_listed(facts) || granted_gpus(facts.environment) ||
           facts.visible_gpus.ids.size() == facts.fabric.count_gpus();
}

bool knows(const std::vector<CpuSet>& masks) {
    return !masks.empty() && std::ranges::none_of(masks, [](const CpuSet& mask) { return mask.empty(); });
}

/// Adapts the facts to a task that sees only some GPUs and so knows nothing of its neighbours'. If all tasks have the
/// same CPUs, shares these out as if each part of the node's GPUs, of the size of its own, had a rank. The neighbours
/// compute the same, so the parts are disjoint. Otherwise nobody gets other CPUs. Returns the task's position.
std::size_t isolate(PlacementFacts& facts, std::size_t rank, const GpuNumbers& own, bool distinct) {
    const std::size_t part = own.empty() ? 0 : own.front() / own.size();
    const std::size_t parts = own.empty() ? 0 : facts.gpus.size() / own.size();
    bool is_a_part = distinct && part < parts && facts.masks.size() <= parts;
    for (std::size_t i = 0; i < own.size(); ++i) {
        is_a_part = is_a_part && own[i] == part * own.size() + i;
    }
    const bool in_common = facts.masks.size() > 1 && std::ranges::all_of(facts.masks, [&](const CpuSet& mask) {
                               return mask == facts.masks.front();
                           });
    if (!in_common || !is_a_part) {
        facts.may_share = false;
        facts.own_gpus.assign(facts.masks.size(), {});
        facts.own_gpus[rank] = own;
        return rank;
    }
    const CpuSet common = facts.masks.front();
    facts.masks.assign(parts, common);
    facts.own_gpus.assign(parts, {});
    for (std::size_t gpu = 0; gpu < parts * own.size(); ++gpu) {
        facts.own_gpus[gpu / own.size()].push_back(gpu);
    }
    return part;
}

/// Device files are certain: uses them if the task can open as many as it sees GPUs.
Positions seen_gpus(const TaskView& own, std::span<const Gpu> gpus) {
    if (own.openable.size() == own.gpus.ids.size()) {
        return {own.openable.begin(), own.openable.end()};
    }
    return match_gpus(own.gpus, own.environment, find_numbering(own.gpus, own.environment), gpus);
}

/// Returns false if two entries are parts of one GPU (MIG).
bool are_distinct(const Positions& gpus) {
    return std::ranges::none_of(gpus, [&](const auto& gpu) { return gpu && std::ranges::count(gpus, gpu) > 1; });
}

/// Returns the positions of the task's GPUs in the step's list.
GpuNumbers numbers_of(const Positions& seen, const Positions& all) {
    GpuNumbers numbers;
    for (const auto& position : seen) {
        const auto found = position ? std::ranges::find(all, position) : all.end();
        if (found != all.end()) {
            numbers.push_back(static_cast<std::size_t>(found - all.begin()));
        }
    }
    return numbers;
}

std::string hcas_why(const NodePlacement& node, const RankPlacement& rank) {
    if (!node.placement.nearness_known && !rank.gpus.empty()) {
        return "all equally near, shared between the ranks";
    }
    return format_text("nearest first: {} from its {}", distance_text(rank.to_hca), rank.gpus.empty() ? "CPUs" : "GPU");
}

std::string cpus_why(const RankPlacement& rank) {
    return format_text("{} ({}){}", format_count(rank.cores, "core"), rank.cpus.list(),
                       rank.threads() < rank.cores ? ", one left for NCCL's proxy" : "");
}

/// Returns the smallest count in text like "64(x2),32".
std::optional<unsigned> least_count(std::string_view text) {
    std::optional<unsigned> least;
    for (const auto part : split(text, ',')) {
        const auto count = parse_number<unsigned>(part.substr(0, part.find('(')));
        if (!count) {
            return std::nullopt;
        }
        least = std::min(least.value_or(*count), *count);
    }
    return least;
}

} // namespace

std::string NodePlacement::ports_of(const RankPlacement& rank) const {
    return joined(mapped(rank.hcas, [&](std::size_t hca) { return ports.at(hca); }), ",");
}

TaskView view_of_task(unsigned local_rank, const Environment& environment, const NodeFacts& facts) {
    return {local_rank, environment, find_visible_gpus(environment, [&] { return facts.fabric.count_gpus(); }),
            openable_gpus(facts.fabric.gpus)};
}

NodePlacement place_ranks(const NodeFacts& facts, const Plan& plan, BindChoice bind, const Topology& topology,
                          std::vector<CpuSet> masks, const std::optional<TaskView>& own) {
    NodePlacement node;
    const auto& visible = facts.visible_gpus;
    const auto numbering = find_numbering(visible, facts.environment);
    node.gpu_ids = visible.ids;
    node.gpus = are_gpus_known(facts) ? match_gpus(visible, facts.environment, numbering, facts.fabric.gpus)
                                      : Positions(visible.ids.size());
    node.order_variable = order_variable(facts, node.gpus);

    const bool can_bind = bind != BindChoice::Off && !topology.cores.empty() && knows(masks);
    node.masks = masks;
    PlacementFacts wanted{topology, {}, {}, std::move(masks), {}, false, can_bind};
    wanted.gpus = mapped(node.gpus, [&](const auto& position) {
        return position ? place_of(facts.fabric.gpus.at(*position), topology) : Place();
    });
    for (const auto* const port : plan.fabric.used()) {
        const auto* const hca = facts.fabric.find_hca(port->hca);
        node.ports.push_back(port->name());
        wanted.hcas.push_back(hca == nullptr ? Place() : place_of(*hca, topology));
    }
    if (own && own->gpus.ids.size() < node.gpu_ids.size()) {
        node.seen_gpus = own->gpus.ids.size();
        node.own = isolate(wanted, own->local_rank, numbers_of(seen_gpus(*own, facts.fabric.gpus), node.gpus),
                           are_distinct(node.gpus));
    } else {
        node.own = own ? own->local_rank : 0;
        wanted.may_reorder = can_bind && may_reorder(facts, plan, node);
    }
    if (facts.step.job_id == 0) { // outside Slurm, nothing separates two jobs of a node
        const std::set seen(node.gpus.begin(), node.gpus.end());
        for (std::size_t i = 0; i < facts.fabric.gpus.size() && !seen.empty(); ++i) {
            if (!seen.contains(i)) {
                wanted.others.push_back(place_of(facts.fabric.gpus[i], topology));
            }
        }
    }
    node.placement = plan_placement(wanted);
    if (!are_gpus_listed(facts) && !granted_gpus(facts.environment)) {
        // GPUs that are merely present were not requested: a program that uses none may have any number of ranks.
        auto& placement = node.placement;
        placement.notes.insert(placement.notes.begin(), placement.warnings.begin(), placement.warnings.end());
        placement.warnings.clear();
    }
    node.binds_cpus = can_bind;
    node.binds_memory = can_bind && bind != BindChoice::Cpu;
    return node;
}

Binding binding_of(const NodePlacement& node, std::size_t rank_number) {
    const auto& rank = node.placement.ranks.at(rank_number);
    const bool bind_cpus = node.binds_cpus && rank.source != CpuSource::Scarce;
    return {bind_cpus ? rank.cpus : CpuSet(), node.binds_memory ? rank.memory_node : std::nullopt};
}

void add_placement(VariableList& variables, const NodePlacement& node, const TaskFacts& task, const Plan& plan) {
    const auto& rank = node.placement.ranks.at(node.seen_gpus ? node.own : task.local_rank);
    const auto* const devices = find_variable(plan.variables, "UCX_NET_DEVICES");
    if (!rank.hcas.empty() && devices != nullptr && devices->action == VariableAction::Set) {
        const auto ports = node.ports_of(rank);
        const auto why = hcas_why(node, rank);
        variables.set("UCX_NET_DEVICES", ports, "placement", why);
        variables.set("NVSHMEM_HCA_LIST", ports, "placement", why);
    }
    if (node.binds_cpus && rank.cores > 0) {
        const bool limited = task.cpus_per_task > 0 && task.cpus_per_task < rank.threads();
        variables.set("OMP_NUM_THREADS", format_text("{}", limited ? task.cpus_per_task : rank.threads()), "placement",
                      limited ? "SLURM_CPUS_PER_TASK" : cpus_why(rank));
    }
    if (!node.placement.gpu_order.empty()) {
        const auto order = mapped(node.placement.gpu_order, [&](std::size_t gpu) { return node.gpu_ids.at(gpu); });
        variables.force(node.order_variable, joined(order, ","), "placement",
                        "the same GPUs in the order of the CPUs that Slurm gave the tasks");
    }
    if (plan.layout.layout == Layout::Rank && !node.gpu_ids.empty() && node.seen_gpus != std::size_t{0}) {
        variables.set("JAX_LOCAL_DEVICE_IDS",
                      node.seen_gpus ? first_numbers(*node.seen_gpus)
                                     : std::to_string(task.local_rank % node.gpu_ids.size()),
                      "placement", node.seen_gpus ? "all that it sees" : "as LOCAL_RANK");
    }
}

std::optional<std::string> judge_isolation(const NodeFacts& facts, const VisibleGpus& seen, unsigned local_tasks) {
    const auto count = facts.visible_gpus.count();
    if (local_tasks < 2 || seen.ids.size() >= count || count < 2) {
        return std::nullopt;
    }
    return format_text(
        "each task sees {} of the node's {} GPUs ({}): NCCL cannot use NVLink between GPUs that Slurm hides from each "
        "other, and LOCAL_RANK counts GPUs that are not there; give srun --gpus-per-node={} --gpu-bind=none instead of "
        "--gpus-per-task or --gpu-bind, or --gres-flags=allow-task-sharing (Slurm 23.11.4 or newer)",
        seen.ids.size(), count, seen.source, count);
}

std::optional<std::string> judge_cpus(const Environment& environment, std::size_t ranks, std::size_t cpus) {
    const auto step = parse_number<unsigned>(environment.get("SLURM_CPUS_ON_NODE").value_or(""));
    const auto job = least_count(environment.get("SLURM_JOB_CPUS_PER_NODE").value_or(""));
    // A user who gave srun --cpus-per-task got what they asked for. A value above the step's CPUs is the job's.
    const auto asked = parse_number<unsigned>(environment.get("SLURM_CPUS_PER_TASK").value_or(""));
    if (!step || !job || *job <= *step || ranks < 1 || cpus >= 2 * ranks || asked.value_or(*step + 1) <= *step) {
        return std::nullopt;
    }
    return format_text("{} on {}: the step has {} of the job's {} CPUs on a node, as srun does not take over "
                       "--cpus-per-task of the job; give it to srun, or export SRUN_CPUS_PER_TASK before",
                       format_count(ranks, "rank"), format_count(cpus, "CPU"), *step, *job);
}

} // namespace rdma_nccl
