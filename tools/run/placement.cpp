// SPDX-License-Identifier: Apache-2.0
#include "tools/run/placement.h"

#include "lib/base/text.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/readers.h"
#include "lib/select/port_selection.h"
#include "lib/sys/affinity.h"
#include "lib/topology/topology.h"

#include <set>
#include <utility>

namespace rdma_nccl::run {

namespace {

constexpr std::string_view ports_variable = "UCX_NET_DEVICES";

/// Adds the plugin's list ("mlx5_1:1,mlx5_2:1") as used ports. Of their HCAs only the place is read.
void add_ports(const SysRoot& root, const Environment& environment, NodeFacts& facts, Plan& plan) {
    if (!environment.ours().contains(ports_variable)) {
        return;
    }
    const std::string list = environment.get(ports_variable).value_or("");
    for (const auto part : split(list, ',')) {
        const auto [name, number] = split_once(part, ':');
        PortChoice port;
        port.hca = name;
        port.port = parse_number<unsigned>(number.value_or("1")).value_or(1);
        if (facts.fabric.find_hca(port.hca) == nullptr) {
            facts.fabric.hcas.push_back(read_hca_place(root, port.hca));
        }
        plan.fabric.ports.push_back(std::move(port));
    }
}

/// Facts and plan for place_ranks(), without the ports.
struct NodeInquiry {
    NodeFacts facts;
    Plan plan;
};

NodeInquiry inquire(const Environment& environment, Fabric fabric) {
    NodeInquiry node;
    node.facts.environment = environment;
    node.facts.step = read_step(environment, {});
    node.facts.fabric = std::move(fabric);
    node.facts.visible_gpus = find_visible_gpus(environment, [&] { return node.facts.fabric.gpus.size(); });
    node.plan.layout.layout = Layout::Node;
    return node;
}

RankDeviceNames devices_of(const NodeInquiry& node, const NodePlacement& placed, const RankPlacement& rank) {
    RankDeviceNames devices;
    for (const auto hca : rank.hcas) {
        devices.hcas.push_back(placed.ports.at(hca));
    }
    if (rank.gpus.empty()) {
        return devices;
    }
    devices.gpu = placed.gpu_ids.at(rank.gpus.front());
    if (const auto& position = placed.gpus.at(rank.gpus.front())) {
        devices.gpu_pci = node.facts.fabric.gpus.at(*position).pci;
        devices.gpu_uuid = node.facts.fabric.gpus.at(*position).uuid;
        devices.gpu_file = node.facts.fabric.gpus.at(*position).device_file;
    }
    return devices;
}

/// Returns the values that `insert` adds for each device, without empty ones and duplicates.
template<typename Insert>
std::vector<std::string> names_of(const std::vector<RankDeviceNames>& devices, Insert insert) {
    std::set<std::string> names;
    for (const auto& device : devices) {
        insert(names, device);
    }
    names.erase(std::string());
    return {names.begin(), names.end()};
}

} // namespace

std::optional<NodePlacement> place_run(const SysRoot& root, const Environment& environment, BindChoice bind,
                                       unsigned ranks, std::string& problem) {
    if (ranks < 2 || bind == BindChoice::Off) {
        return std::nullopt;
    }
    auto topology = read_topology(root);
    if (!topology) {
        problem = topology.error().message;
        return std::nullopt;
    }
    Notes notes;
    Fabric fabric;
    fabric.gpus = read_gpus(root, notes);
    auto node = inquire(environment, std::move(fabric));
    add_ports(root, environment, node.facts, node.plan);
    return place_ranks(node.facts, node.plan, bind, *topology, std::vector<CpuSet>(ranks, read_affinity()));
}

std::vector<RankDeviceNames> find_devices(const SysRoot& root, const Environment& environment, unsigned ranks) {
    auto node = inquire(environment, read_fabric(root));
    add_ports(root, environment, node.facts, node.plan);
    if (node.plan.fabric.ports.empty()) {
        node.plan.fabric = choose_fabric(node.facts.fabric, Settings());
    }
    // Without hwloc, PCI addresses still tell which devices are near each other.
    const auto topology = read_topology(root).value_or(Topology());
    const auto placed =
        place_ranks(node.facts, node.plan, BindChoice::Off, topology, std::vector<CpuSet>(ranks, read_affinity()));
    std::vector<RankDeviceNames> devices;
    for (const auto& rank : placed.placement.ranks) {
        devices.push_back(devices_of(node, placed, rank));
    }
    return devices;
}

const std::vector<RankDeviceNames>& RankDevices::all() {
    if (!devices_) {
        devices_ = find_ ? find_() : std::vector<RankDeviceNames>();
    }
    return *devices_;
}

std::vector<std::string> RankDevices::ports() {
    return names_of(all(), [](auto& names, const auto& one) { names.insert(one.hcas.begin(), one.hcas.end()); });
}

std::vector<std::string> RankDevices::gpus() {
    return names_of(
        all(), [](auto& names, const auto& one) { names.insert(one.gpu_uuid.empty() ? one.gpu_pci : one.gpu_uuid); });
}

std::vector<std::string> RankDevices::gpu_files() {
    return names_of(all(), [](auto& names, const auto& one) { names.insert(one.gpu_file); });
}

} // namespace rdma_nccl::run
