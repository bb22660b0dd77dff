// SPDX-License-Identifier: Apache-2.0
#include "tools/node/node_plan.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/plan/report.h"
#include "lib/sys/affinity.h"
#include "lib/topology/topology.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

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

/// hwloc's file only shows which ports are active.
FabricChoice choose_active_ports(const Fabric& fabric) {
    FabricChoice choice;
    for (const auto& hca : fabric.hcas) {
        for (const auto& port : hca.ports) {
            PortChoice& entry = choice.ports.emplace_back();
            entry.hca = hca.name;
            entry.port = port.number;
            entry.rule = port.state == "ACTIVE" ? PortRule::Used : PortRule::NotActive;
        }
    }
    return choice;
}

} // namespace

std::optional<unsigned> slurm_number(const Environment& environment, std::string_view name) {
    return parse_number<unsigned>(environment.get(name).value_or(""));
}

bool set_up_by_plugin(const Environment& environment, const Step& step) {
    return environment.get("SLURM_STEP_ID") && environment.marked_step() == step.name();
}

Result<Places> place_here(const NodeFacts& facts, const Plan& plan, const Settings& settings,
                          const RanksWanted& wanted) {
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
    places.masks_source = live ? "the affinity mask of this process" : "all CPUs of the machine";
    // The plugin leaves no masks if it was told not to bind.
    const bool plugin_binds = !set_up_by_plugin(facts.environment, facts.step) || plan.layout.layout != Layout::Rank ||
                              facts.environment.get(masks_variable) || !wanted.cpus.empty();
    const CpuSet default_cpus = live ? read_affinity() : places.topology.cpus();
    return place(std::move(places), facts, plan, plugin_binds ? settings.bind : BindChoice::Off, default_cpus, live,
                 wanted);
}

Result<XmlPlaces> place_by_xml(const std::string& path, BindChoice bind, const RanksWanted& wanted) {
    auto machine = read_topology_xml(path);
    if (!machine) {
        return tl::unexpected(machine.error());
    }
    XmlPlaces node;
    node.places.topology = std::move(machine->topology);
    node.places.masks_source = "all CPUs of the machine";
    node.facts.fabric = std::move(machine->fabric);
    node.facts.visible_gpus = find_visible_gpus({}, [&] { return node.facts.fabric.gpus.size(); });
    node.plan.layout.layout = Layout::Rank;
    node.plan.visible_gpus = node.facts.visible_gpus.count();
    node.plan.fabric = choose_active_ports(node.facts.fabric);
    const CpuSet all = node.places.topology.cpus();
    return place(std::move(node.places), node.facts, node.plan, bind, all, false, wanted).map([&](Places places) {
        node.places = std::move(places);
        return std::move(node);
    });
}

} // namespace rdma_nccl
