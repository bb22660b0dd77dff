// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/parts.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rdma_nccl {

namespace {

std::vector<std::size_t> ranks_on(const NodePlacement& placed, const CpuSet& cpus) {
    std::vector<std::size_t> ranks;
    for (std::size_t i = 0; i < placed.placement.ranks.size(); ++i) {
        if (placed.placement.ranks[i].cpus.intersects(cpus)) {
            ranks.push_back(i);
        }
    }
    return ranks;
}

/// Returns text like "0,1,5".
std::string number_list(const std::vector<std::size_t>& numbers) {
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
    Part part = make_part(PartKind::Core, "");
    part.ranks = ranks_on(node.places.placed, core.cpus);
    part.hint = format_text("CPU{} {}, package {}", core.cpus.size() == 1 ? "" : "s", core.cpus.list(), core.package);
    if (!part.ranks.empty()) {
        part.hint += "\n" + ranks_text(part.ranks);
    }
    return part;
}

/// Groups cores by last-level cache, or all in one group if nearly every core has its own.
std::vector<Part> cache_parts(const NodePlan& node, const std::vector<const Core*>& cores) {
    const auto differ = [](const Core& a, const Core& b) { return a.package != b.package || a.l3 != b.l3; };
    std::size_t caches = 1;
    for (std::size_t i = 1; i < cores.size(); ++i) {
        caches += differ(*cores[i - 1], *cores[i]) ? 1U : 0U;
    }
    const bool grouped = caches * 2 <= cores.size();
    std::vector<Part> parts;
    for (std::size_t i = 0; i < cores.size(); ++i) {
        if (i == 0 || (grouped && differ(*cores[i - 1], *cores[i]))) {
            parts.push_back(make_part(PartKind::Cache, ""));
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
        auto& share = known == parts.end() ? parts.emplace_back(make_part(PartKind::Share, cpus)) : *known;
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

Part numa_part(const NodePlan& node, const NumaNumber& number, const std::vector<const Core*>& cores,
               std::vector<DeviceTree>& trees) {
    CpuSet cpus;
    for (const auto* core : cores) {
        cpus |= core->cpus;
    }
    const auto* numa = number ? node.places.topology.find_numa_node(*number) : nullptr;
    Part part = make_part(PartKind::Numa, number ? format_text("NUMA node {}", *number) : "no NUMA node",
                          format_text("{}CPUs {}",
                                      numa == nullptr         ? ""
                                      : numa->memory_mib == 0 ? "no memory, "
                                                              : memory_text(numa->memory_mib) + ", ",
                                      printable(cpus.list(), 24)));
    part.hint =
        format_text("{}, {}, CPUs {}", part.label, format_count(cores.size(), "core"), printable(cpus.list(), 160));
    part.parts = cache_parts(node, cores);
    add_shares(node.places.placed, cpus, part.parts);
    take_near(trees, cpus, part.parts);
    sort_by_kind(part.parts);
    return part;
}

/// Groups the packages that share a NUMA node, so that the node is drawn once. Returns for each package the lowest
/// number of its group.
std::vector<unsigned> group_packages(const Topology& topology) {
    std::vector<unsigned> group;
    for (const auto& core : topology.cores) {
        for (auto i = static_cast<unsigned>(group.size()); i <= core.package; ++i) {
            group.push_back(i);
        }
    }
    std::map<unsigned, unsigned> first; // package of each NUMA node
    for (const auto& core : topology.cores) {
        if (!core.numa_node) {
            continue;
        }
        const unsigned here = group[core.package];
        const unsigned there = group[first.emplace(*core.numa_node, core.package).first->second];
        std::replace(group.begin(), group.end(), std::max(here, there), std::min(here, there));
    }
    return group;
}

Part memory_part(const NumaNode& numa) {
    Part part = make_part(PartKind::Memory, format_text("NUMA node {}", numa.number),
                          memory_text(numa.memory_mib) + ", no cores of its own");
    part.hint = part.label + ": " + part.detail;
    return part;
}

Part package_part(const NodePlan& node, const std::vector<unsigned>& group, unsigned first_package,
                  std::vector<DeviceTree>& trees) {
    std::map<NumaNumber, std::vector<const Core*>> cores;
    CpuSet cpus;
    std::size_t number = 0;
    for (const auto& core : node.places.topology.cores) {
        if (group[core.package] == first_package) {
            cores[core.numa_node].push_back(&core);
            cpus |= core.cpus;
            ++number;
        }
    }
    std::vector<std::size_t> packages;
    for (std::size_t i = 0; i < group.size(); ++i) {
        if (group[i] == first_package) {
            packages.push_back(i);
        }
    }
    Part part = make_part(PartKind::Package,
                          packages.size() == 1  ? format_text("Package {}", first_package)
                          : packages.size() < 5 ? "Packages " + number_list(packages)
                                                : format_count(packages.size(), "package"),
                          format_count(number, "core"));
    for (const auto& [numa, members] : cores) {
        part.parts.push_back(numa_part(node, numa, members, trees));
    }
    for (const auto& numa : node.places.topology.numa_nodes) {
        const bool here = numa.package < group.size() && group[numa.package] == first_package;
        if (here && numa.memory_mib > 0 && !cores.contains(numa.number)) {
            part.parts.push_back(memory_part(numa));
        }
    }
    take_near(trees, cpus, part.parts);
    sort_by_kind(part.parts);
    return part;
}

} // namespace

Part make_part(PartKind kind, std::string label, std::string detail, std::string hint) {
    return {kind, std::move(label), std::move(detail), std::move(hint), {}, true, {}, {}};
}

Part machine_parts(const NodePlan& node) {
    auto trees = device_trees(node);
    const auto group = group_packages(node.places.topology);
    Part machine;
    for (unsigned i = 0; i < group.size(); ++i) {
        if (group[i] == i && std::ranges::any_of(node.places.topology.cores,
                                                 [&](const Core& core) { return group[core.package] == i; })) {
            machine.parts.push_back(package_part(node, group, i, trees));
        }
    }
    if (!trees.empty()) {
        Part elsewhere =
            make_part(PartKind::Elsewhere, "Place not known", "the machine does not tell which CPUs are near");
        for (auto& tree : trees) {
            elsewhere.parts.push_back(std::move(tree.part));
        }
        sort_by_kind(elsewhere.parts);
        machine.parts.push_back(std::move(elsewhere));
    }
    return machine;
}

} // namespace rdma_nccl
