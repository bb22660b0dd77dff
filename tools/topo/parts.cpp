// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/parts.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rdma_nccl {

namespace {

/// Returns text like "0,1,5".
std::string number_list(const auto& numbers) {
    std::string text;
    for (const auto number : numbers) {
        text += format_text("{}{}", text.empty() ? "" : ",", number);
    }
    return text;
}

/// "local rank 3", "local ranks 0,1,5"
std::string ranks_text(const std::vector<std::size_t>& ranks) {
    return format_text("local rank{} {}", ranks.size() == 1 ? "" : "s", printable(number_list(ranks), 160));
}

Part core_part(const NodePlan& node, const Core& core) {
    Part part{PartKind::Core};
    part.ranks =
        ranks_where(node.places.placed, [&](const RankPlacement& rank) { return rank.cpus.intersects(core.cpus); });
    part.hint = format_text("CPU{} {}, package {}", core.cpus.size() == 1 ? "" : "s", core.cpus.list(), core.package);
    if (!part.ranks.empty()) {
        part.hint += "\n" + ranks_text(part.ranks);
    }
    return part;
}

using Cores = std::vector<const Core*>;

CpuSet cpus_of(const Cores& cores) {
    CpuSet cpus;
    for (const auto* core : cores) {
        cpus |= core->cpus;
    }
    return cpus;
}

/// Groups cores by last-level cache, or all in one group if nearly every core has its own.
std::vector<Part> cache_parts(const NodePlan& node, const Cores& cores) {
    const auto differ = [](const Core& a, const Core& b) { return a.package != b.package || a.l3 != b.l3; };
    std::size_t caches = 1;
    for (std::size_t i = 1; i < cores.size(); ++i) {
        caches += differ(*cores[i - 1], *cores[i]) ? 1U : 0U;
    }
    const bool grouped = caches * 2 <= cores.size();
    std::vector<Part> parts;
    for (std::size_t i = 0; i < cores.size(); ++i) {
        if (i == 0 || (grouped && differ(*cores[i - 1], *cores[i]))) {
            parts.push_back(Part{PartKind::Cache});
        }
        parts.back().parts.push_back(core_part(node, *cores[i]));
    }
    return parts;
}

/// Adds one part for all ranks that have the same CPUs there.
void add_shares(const NodePlacement& placed, const CpuSet& there, std::vector<Part>& parts) {
    const auto begin = static_cast<std::ptrdiff_t>(parts.size());
    for (std::size_t i = 0; i < placed.placement.ranks.size(); ++i) {
        const auto cpus = (placed.placement.ranks[i].cpus & there).list();
        if (cpus.empty()) {
            continue;
        }
        const auto known = std::ranges::find(parts.begin() + begin, parts.end(), cpus, &Part::label);
        auto& share = known == parts.end() ? parts.emplace_back(Part{PartKind::Share, cpus}) : *known;
        share.ranks.push_back(i);
        share.hint = format_text("{}: CPUs {}", ranks_text(share.ranks), printable(cpus, 160));
    }
}

/// Moves the trees that are near to `cpus`, and to no other CPUs, from `trees` to `parts`.
void take_near(std::vector<DeviceTree>& trees, const CpuSet& cpus, std::vector<Part>& parts) {
    const auto near = [&](const DeviceTree& tree) { return !tree.cpus.empty() && cpus.contains(tree.cpus); };
    for (auto& tree : trees) {
        if (near(tree)) {
            parts.push_back(std::move(tree.part));
        }
    }
    std::erase_if(trees, near);
}

bool has_ranks(const Part& part) {
    return !part.ranks.empty() || std::ranges::any_of(part.parts, has_ranks);
}

/// Sorts by kind; host bridges without ranks come last.
void sort_by_kind(std::vector<Part>& parts) {
    std::ranges::stable_sort(parts, {}, [](const Part& part) {
        return std::pair(part.kind, part.kind == PartKind::HostBridge && !has_ranks(part));
    });
}

using NumaNumber = std::optional<unsigned>;

Part numa_part(const NodePlan& node, const NumaNumber& number, const Cores& cores, std::vector<DeviceTree>& trees) {
    const CpuSet cpus = cpus_of(cores);
    const auto* numa = number ? node.places.topology.find_numa_node(*number) : nullptr;
    Part part{PartKind::Numa, number ? format_text("NUMA node {}", *number) : "no NUMA node",
              format_text("{}CPUs {}",
                          numa == nullptr         ? ""
                          : numa->memory_mib == 0 ? "no memory, "
                                                  : memory_text(numa->memory_mib) + ", ",
                          printable(cpus.list(), 24))};
    part.hint =
        format_text("{}, {}, CPUs {}", part.label, format_count(cores.size(), "core"), printable(cpus.list(), 160));
    part.parts = cache_parts(node, cores);
    add_shares(node.places.placed, cpus, part.parts);
    take_near(trees, cpus, part.parts);
    sort_by_kind(part.parts);
    return part;
}

/// Returns the cores of each package. Packages that share a NUMA node are one, so that the node is drawn once.
std::map<unsigned, Cores> group_packages(const Topology& topology) {
    std::map<unsigned, unsigned> group; // of each package: the lowest number in it
    std::map<unsigned, unsigned> first; // package of each NUMA node
    for (const auto& core : topology.cores) {
        group.emplace(core.package, core.package);
        if (!core.numa_node) {
            continue;
        }
        const unsigned here = group[core.package];
        const unsigned there = group[first.emplace(*core.numa_node, core.package).first->second];
        for (auto& [package, number] : group) {
            number = number == std::max(here, there) ? std::min(here, there) : number;
        }
    }
    std::map<unsigned, Cores> cores;
    for (const auto& core : topology.cores) {
        cores[group[core.package]].push_back(&core);
    }
    return cores;
}

Part memory_part(const NumaNode& numa) {
    Part part{PartKind::Memory, format_text("NUMA node {}", numa.number),
              memory_text(numa.memory_mib) + ", no cores of its own"};
    part.hint = part.label + ": " + part.detail;
    return part;
}

Part package_part(const NodePlan& node, const Cores& members, std::vector<DeviceTree>& trees) {
    std::map<NumaNumber, Cores> cores;
    std::set<unsigned> packages;
    for (const auto* const core : members) {
        cores[core->numa_node].push_back(core);
        packages.insert(core->package);
    }
    Part part{PartKind::Package,
              packages.size() == 1  ? format_text("Package {}", *packages.begin())
              : packages.size() < 5 ? "Packages " + number_list(packages)
                                    : format_count(packages.size(), "package"),
              format_count(members.size(), "core")};
    for (const auto& [numa, of_node] : cores) {
        part.parts.push_back(numa_part(node, numa, of_node, trees));
    }
    for (const auto& numa : node.places.topology.numa_nodes) {
        if (packages.contains(numa.package) && numa.memory_mib > 0 && !cores.contains(numa.number)) {
            part.parts.push_back(memory_part(numa));
        }
    }
    take_near(trees, cpus_of(members), part.parts);
    sort_by_kind(part.parts);
    return part;
}

} // namespace

Part machine_parts(const NodePlan& node) {
    auto trees = device_trees(node);
    Part machine;
    for (const auto& [package, cores] : group_packages(node.places.topology)) {
        machine.parts.push_back(package_part(node, cores, trees));
    }
    if (!trees.empty()) {
        Part elsewhere{PartKind::Elsewhere, "Place not known", "the machine does not tell which CPUs are near"};
        for (auto& tree : trees) {
            elsewhere.parts.push_back(std::move(tree.part));
        }
        sort_by_kind(elsewhere.parts);
        machine.parts.push_back(std::move(elsewhere));
    }
    return machine;
}

} // namespace rdma_nccl
