// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/readers.h"
#include "lib/select/port_selection.h"
#include "lib/sys/resources.h"
#include "lib/topology/sysfs_topology.h"

#include <set>
#include <utility>

namespace rdma_nccl::run {

namespace {

/// Facts and plan for place_ranks().
struct NodeInquiry {
    NodeFacts facts;
    Plan plan;
};

/// The plugin's list ("mlx5_1:1,mlx5_2:1") is that of the used ports. Of their HCAs only the place is read.
NodeInquiry inquire(const SysRoot& root, const Environment& environment, Fabric fabric) {
    constexpr std::string_view ports_variable = "UCX_NET_DEVICES";
    NodeInquiry node;
    node.facts.environment = environment;
    node.facts.step = read_step(environment, {});
    node.facts.visible_gpus = find_visible_gpus(environment, [&] { return fabric.count_gpus(); });
    node.plan.layout.layout = Layout::Node;
    const auto list = environment.ours().contains(ports_variable) ? environment.get(ports_variable) : std::nullopt;
    for (const auto part : list ? split(*list, ',') : std::vector<std::string_view>()) {
        const auto [name, number] = split_once(part, ':');
        PortChoice port;
        port.hca = name;
        port.port = parse_number<unsigned>(number.value_or("1")).value_or(1);
        if (fabric.find_hca(port.hca) == nullptr) {
            fabric.hcas.push_back(read_hca_place(root, port.hca));
        }
        node.plan.fabric.ports.push_back(std::move(port));
    }
    node.facts.fabric = std::move(fabric);
    return node;
}

RankDeviceNames devices_of(const NodeInquiry& node, const NodePlacement& placed, const RankPlacement& rank) {
    RankDeviceNames devices;
    devices.hcas = mapped(rank.hcas, [&](std::size_t hca) { return placed.ports.at(hca); });
    if (rank.gpus.empty()) {
        return devices;
    }
    devices.gpu = placed.gpu_ids.at(rank.gpus.front());
    if (const auto& position = placed.gpus.at(rank.gpus.front())) {
        const auto& gpu = node.facts.fabric.gpus.at(*position);
        devices.gpu_pci = gpu.pci;
        devices.gpu_uuid = gpu.uuid;
        devices.gpu_file = gpu.device_file;
    }
    return devices;
}

} // namespace

std::optional<NodePlacement> place_run(const SysRoot& root, const Environment& environment, BindChoice bind,
                                       unsigned ranks, std::string& problem) {
    if (ranks < 2 || bind == BindChoice::Off) {
        return std::nullopt;
    }
    auto topology = read_sysfs_topology(root);
    if (!topology) {
        problem = topology.error().message;
        return std::nullopt;
    }
    Notes notes;
    Fabric fabric;
    fabric.gpus = read_gpus(root, notes);
    const auto node = inquire(root, environment, std::move(fabric));
    return place_ranks(node.facts, node.plan, bind, *topology, std::vector<CpuSet>(ranks, read_affinity()));
}

std::vector<RankDeviceNames> find_devices(const SysRoot& root, const Environment& environment, unsigned ranks) {
    auto node = inquire(root, environment, read_fabric(root));
    if (node.plan.fabric.ports.empty()) {
        node.plan.fabric = choose_fabric(node.facts.fabric, Settings());
    }
    // Where the kernel's files are missing, PCI addresses still tell which devices are near each other.
    const auto topology = read_sysfs_topology(root).value_or(Topology());
    const auto placed =
        place_ranks(node.facts, node.plan, BindChoice::Off, topology, std::vector<CpuSet>(ranks, read_affinity()));
    return mapped(placed.placement.ranks, [&](const auto& rank) { return devices_of(node, placed, rank); });
}

const std::vector<RankDeviceNames>& RankDevices::all() {
    if (!devices_) {
        devices_ = find_ ? find_() : std::vector<RankDeviceNames>();
    }
    return *devices_;
}

std::vector<std::string>
RankDevices::names(const std::function<std::vector<std::string>(const RankDeviceNames& one)>& names_of) {
    std::set<std::string> found;
    for (const auto& one : all()) {
        for (auto& name : names_of(one)) {
            found.insert(std::move(name));
        }
    }
    found.erase(std::string());
    return {found.begin(), found.end()};
}

} // namespace rdma_nccl::run
