// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/pci.h"
#include "tools/topo/parts.h"
#include "tools/topo/topo.h"

#include <algorithm>
#include <map>
#include <span>

namespace rdma_nccl {

namespace {

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
    part.ranks =
        ranks_where(placed, [&](const RankPlacement& rank) { return std::ranges::count(rank.gpus, number) > 0; });
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
    std::vector<std::size_t> ports;
    for (std::size_t i = 0; i < placed.ports.size(); ++i) {
        if (placed.ports[i].substr(0, placed.ports[i].rfind(':')) == hca) {
            ports.push_back(i);
        }
    }
    return ports;
}

Part hca_part(const NodePlan& node, const Hca& hca) {
    const auto& placed = node.places.placed;
    const auto ports = ports_of(placed, hca.name);
    Part part{PartKind::Hca, hca.name, hca.pci};
    part.used = !ports.empty();
    for (std::size_t i = 0; i < ports.size(); ++i) {
        part.label += (i == 0 ? ":" : ",") + placed.ports[ports[i]].substr(hca.name.size() + 1);
    }
    part.ranks = ranks_where(placed, [&](const RankPlacement& rank) {
        return !rank.hcas.empty() && std::ranges::count(ports, rank.hcas.front()) > 0;
    });
    part.hint =
        format_text("{}, {}, {}", part.label, or_unknown(hca.pci), near_text(place_of(hca, node.places.topology).cpus));
    const auto& table = placed.placement.gpu_to_hca;
    part.hint += !part.used ? "\nnot used: " + printable(node.plan.fabric.reason_for(hca.name), 160)
                            : distance_lines(
                                  table.size(), [&](std::size_t gpu) { return table[gpu].at(ports.front()); },
                                  [&](std::size_t gpu) { return gpu_name(placed.gpu_ids.at(gpu)); });
    return part;
}

std::vector<Device> find_devices(const NodePlan& node) {
    const auto& fabric = node.facts.fabric;
    const auto& topology = node.places.topology;
    std::vector<Device> devices;
    const auto add = [&](Place place, Part part) {
        if (!topology.cores.empty()) {
            place.cpus &= topology.cpus(); // the kernel also counts CPUs that are offline
        }
        devices.push_back({std::move(place.pci_path), {}, std::move(place.cpus), std::move(part)});
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

} // namespace

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
        tree.part = std::move(parts_below(rest.first(count), 0).front());
        rest = rest.subspan(count);
    }
    return trees;
}

} // namespace rdma_nccl
