// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/topo.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace rdma_nccl {

namespace {

// The devices.

/// A GPU or an HCA, and the PCI devices above it.
struct Device {
    std::string path;
    std::vector<std::string_view> above; ///< parts of `path`
    CpuSet cpus;
    Part part;
};

std::string or_unknown(const std::string& text) {
    return text.empty() ? "PCI address not known" : text;
}

std::string near_text(const CpuSet& cpus) {
    return cpus.empty() ? "near CPUs not known" : "near CPUs " + printable(cpus.list());
}

/// Returns lines like "one PCIe switch: mlx5_1:1, mlx5_2:1", the nearest first. `distance` and `name` give those of the
/// i-th other device.
std::string distance_lines(std::size_t count, auto distance, auto name) {
    std::map<Distance, std::vector<std::string>> names;
    for (std::size_t i = 0; i < count; ++i) {
        names[distance(i)].push_back(name(i));
    }
    std::string text;
    for (const auto& [at, list] : names) {
        text += format_text("\n{}: {}", at == Distance::Unknown ? "not known" : distance_text(at),
                            printable(joined(list), 160));
    }
    return text;
}

/// Returns "GPU 3"; ids that begin with GPU- or MIG- are returned unchanged.
std::string gpu_name(const std::string& id) {
    return id.starts_with("GPU") || id.starts_with("MIG") ? id : "GPU " + id;
}

/// Returns the part of a GPU that ranks can see, by its index among them.
Part visible_gpu(const NodePlan& node, std::size_t number) {
    const auto& placed = node.places.placed;
    Part part{PartKind::Gpu, gpu_name(placed.gpu_ids.at(number))};
    part.ranks = positions_where(placed.placement.ranks,
                                 [&](const RankPlacement& rank) { return std::ranges::count(rank.gpus, number) > 0; });
    const Gpu* const gpu = gpu_at(node, number);
    part.detail = gpu == nullptr ? "" : gpu->pci;
    part.hint = format_text("{}, {}, {}", part.label, or_unknown(part.detail),
                            near_text(gpu == nullptr ? CpuSet() : place_of(*gpu, node.places.topology).cpus));
    if (number < placed.placement.gpu_to_hca.size()) {
        const auto& row = placed.placement.gpu_to_hca[number];
        part.hint += distance_lines(
            row.size(), [&](std::size_t hca) { return row[hca]; },
            [&](std::size_t hca) { return placed.ports.at(hca); });
    }
    return part;
}

/// Returns the indices of the HCA's ports among the used ports.
std::vector<std::size_t> ports_of(const NodePlacement& placed, const std::string& hca) {
    return positions_where(placed.ports,
                           [&hca](const std::string& port) { return port.substr(0, port.rfind(':')) == hca; });
}

Part hca_part(const NodePlan& node, const Hca& hca) {
    const auto& placed = node.places.placed;
    const auto ports = ports_of(placed, hca.name);
    Part part{PartKind::Hca, hca.name, hca.pci};
    part.used = !ports.empty();
    for (std::size_t i = 0; i < ports.size(); ++i) {
        part.label += (i == 0 ? ":" : ",") + placed.ports[ports[i]].substr(hca.name.size() + 1);
    }
    part.ranks = positions_where(placed.placement.ranks, [&](const RankPlacement& rank) {
        return !rank.hcas.empty() && std::ranges::count(ports, rank.hcas.front()) > 0;
    });
    part.hint =
        format_text("{}, {}, {}", part.label, or_unknown(hca.pci), near_text(place_of(hca, node.places.topology).cpus));
    const auto& table = placed.placement.gpu_to_hca;
    part.hint += !part.used ? "\nnot used: " + printable(node.plan.fabric.reason_for(hca), 160)
                            : distance_lines(
                                  table.size(), [&](std::size_t gpu) { return table[gpu].at(ports.front()); },
                                  [&](std::size_t gpu) { return gpu_name(placed.gpu_ids.at(gpu)); });
    return part;
}

std::vector<Device> find_devices(const NodePlan& node) {
    const auto& fabric = node.facts.fabric;
    const auto& topology = node.places.topology;
    std::vector<Device> devices;
    const auto online = topology.cpus();
    const auto add = [&](Place place, Part part) {
        if (!topology.cores.empty()) {
            place.cpus &= online; // the kernel also counts CPUs that are offline
        }
        devices.push_back({std::move(place.pci_path), {}, place.cpus, std::move(part)});
    };
    std::vector<bool> seen(fabric.gpus.size());
    for (std::size_t i = 0; i < node.places.placed.gpus.size(); ++i) {
        const auto& position = node.places.placed.gpus[i];
        add(position ? place_of(fabric.gpus.at(*position), topology) : Place(), visible_gpu(node, i));
        if (position) {
            seen[*position] = true;
        }
    }
    for (std::size_t i = 0; i < fabric.gpus.size(); ++i) {
        if (!seen[i]) {
            const auto& gpu = fabric.gpus[i];
            Part part{PartKind::Gpu, "GPU", gpu.pci, gpu.pci + ": the ranks do not see it"};
            part.used = false;
            add(place_of(gpu, topology), std::move(part));
        }
    }
    for (const auto& hca : fabric.hcas) {
        add(place_of(hca, topology), hca_part(node, hca));
    }
    std::ranges::stable_sort(devices, {}, &Device::path);
    for (auto& each : devices) {
        each.above = pci_ancestors(each.path); // only now, because moving a text may change its address
    }
    return devices;
}

Part bridge_part(std::size_t depth, std::string_view name) {
    if (depth % 2 == 1) {
        return Part{PartKind::Card, std::string(name), "", format_text("one card at port {}", name)};
    }
    return depth == 0 ? Part{PartKind::HostBridge, std::string(name), "", format_text("host bridge {}", name)}
                      : Part{PartKind::Switch, format_text("switch {}", name), "", format_text("PCIe switch {}", name)};
}

/// Returns everything below a port or bridge. Depth 0 is the host bridge, 1 the root port, 2 the upstream port of a
/// switch, 3 one of its downstream ports, and so on: even depths are devices, odd depths are links.
std::vector<Part> parts_below(std::span<const Device> devices, std::size_t depth) {
    std::vector<Part> parts;
    while (!devices.empty()) {
        const auto& first = devices.front();
        if (first.above.size() <= depth) {
            parts.push_back(first.part);
            devices = devices.subspan(1);
            continue;
        }
        const auto end = std::ranges::find_if(devices, [&](const Device& other) {
            return other.above.size() <= depth || other.above[depth] != first.above[depth];
        });
        const auto group = devices.first(static_cast<std::size_t>(end - devices.begin()));
        devices = devices.subspan(group.size());
        Part bridge = bridge_part(depth, first.above[depth]);
        bridge.parts = parts_below(group, depth + 1);
        if (bridge.parts.size() > 1 || depth == 0) { // otherwise it decides nothing
            parts.push_back(std::move(bridge));
        } else {
            append(parts, std::move(bridge.parts));
        }
    }
    std::ranges::stable_sort(parts, {}, &Part::kind);
    return parts;
}

/// A PCI tree, or a device without one, and the CPUs near to it.
struct DeviceTree {
    Part part;
    CpuSet cpus; ///< empty when unknown
};

/// Returns the host bridges with the devices below them. A switch with one device below it makes no difference to
/// distances and is left out.
std::vector<DeviceTree> device_trees(const NodePlan& node) {
    const auto devices = find_devices(node);
    std::span<const Device> rest(devices);
    std::vector<DeviceTree> trees;
    while (!rest.empty()) {
        const auto& first = rest.front();
        std::size_t count = 1;
        while (!first.above.empty() && count < rest.size() && !rest[count].above.empty() &&
               rest[count].above.front() == first.above.front()) {
            ++count;
        }
        auto& tree = trees.emplace_back();
        for (const auto& each : rest.first(count)) {
            tree.cpus |= each.cpus;
        }
        auto part = std::move(parts_below(rest.first(count), 0).front());
        // The host bridges of NCCL's file are made up, one for each card or switch (read_nccl_xml).
        const bool made_up = node.places.topology.packages == 0 && part.kind == PartKind::HostBridge;
        tree.part = std::move(made_up ? part.parts.front() : part);
        rest = rest.subspan(count);
    }
    return trees;
}

// The CPUs, with the devices near to them.

/// Returns text like "0,1,5".
std::string number_list(const auto& numbers) {
    return joined(mapped(numbers, [](auto number) { return std::to_string(number); }), ",");
}

/// "local rank 3", "local ranks 0,1,5"
std::string ranks_text(const std::vector<std::size_t>& ranks) {
    return format_text("local rank{} {}", ranks.size() == 1 ? "" : "s", printable(number_list(ranks), 160));
}

Part core_part(const NodePlan& node, const Core& core) {
    Part part{PartKind::Core};
    part.ranks = positions_where(node.places.placed.placement.ranks,
                                 [&](const RankPlacement& rank) { return rank.cpus.intersects(core.cpus); });
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
    }
    for (auto& share : std::span(parts).subspan(static_cast<std::size_t>(begin))) {
        share.hint = format_text("{}: CPUs {}", ranks_text(share.ranks), printable(share.label, 160));
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
                          numa == nullptr || node.places.topology.packages == 0 ? ""
                          : numa->memory_mib == 0                               ? "no memory, "
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
              node.places.topology.packages == 0 ? "Packages not known"
              : packages.size() == 1             ? format_text("Package {}", *packages.begin())
              : packages.size() < 5              ? "Packages " + number_list(packages)
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
