// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/rails.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/select/rails.h"
#include "lib/traffic/traffic.h"

#include <algorithm>

namespace rdma_nccl::measure {

namespace {

/// Returns the interface of the GID, or of the port; on InfiniBand the IPoIB interface of the same function and port.
std::string netdev_of(const Fabric& fabric, const Hca& hca, const Port& port, const Gid* gid) {
    if (gid != nullptr && !gid->netdev.empty()) {
        return gid->netdev;
    }
    const auto found = std::ranges::find_if(hca.netdevs, [&](const std::string& name) {
        const Netdev* const netdev = fabric.find_netdev(name);
        return hca.ports.size() == 1 || (netdev != nullptr && netdev->port == port.number);
    });
    return found == hca.netdevs.end() ? "" : *found;
}

/// Returns the address that the GID was made from, else the first that other nodes can reach.
std::string address_of(const Netdev& netdev, const Gid* gid) {
    if (gid != nullptr && gid->value.is_routable() &&
        find_by(netdev.addresses, &InterfaceAddress::address, gid->value)) {
        return gid->value.text();
    }
    const auto first = std::ranges::find_if(netdev.addresses, &IpAddress::is_routable, &InterfaceAddress::address);
    return first == netdev.addresses.end() ? "" : first->address.text();
}

PairRail rail_of(const Fabric& fabric, const Hca& hca, const Port& port, const PortChoice& choice) {
    const unsigned index = choice.gid_index.value_or(0);
    const Gid* const used = find_by(port.gids, &Gid::index, index);
    const auto name = netdev_of(fabric, hca, port, used);
    const Netdev* const netdev = fabric.find_netdev(name);
    const auto network = network_of_gid(fabric, choice);
    return {.hca = hca.name,
            .port = port.number,
            .ethernet = port.link_layer == LinkLayer::Ethernet,
            .gid_index = index,
            .gid = used == nullptr ? "" : (used->value.is_ipv4() ? "::ffff:" : "") + used->value.text(),
            .rate_gbps = port.believable_rate_gbps(),
            .netdev = name,
            .netdev_mtu = netdev == nullptr ? 0 : netdev->mtu,
            .network = network ? network->text() : "",
            .address = netdev == nullptr ? "" : address_of(*netdev, used),
            .numa_node = hca.numa_node,
            .local_cpus = hca.local_cpus.list(),
            .software = is_software(hca)};
}

std::string why_none(const Fabric& fabric, const FabricChoice& choice) {
    if (fabric.hcas.empty()) {
        return "no RDMA device";
    }
    const auto& first = fabric.hcas.front();
    const auto others =
        fabric.hcas.size() == 1 ? "" : format_text("none of {} RDMA devices is usable: ", fabric.hcas.size());
    return format_text("{}{} {}", others, first.name, choice.reason_for(first));
}

} // namespace

Node inspect_rails(const Fabric& fabric, const FabricChoice& choice, std::string name) {
    Node node{.name = std::move(name), .rails = {}, .problem = {}};
    for (const PortChoice* const used : in_order_of_nccl(fabric, choice)) {
        const Hca* const hca = fabric.find_hca(used->hca);
        const Port* const port = hca == nullptr ? nullptr : find_by(hca->ports, &Port::number, used->port);
        if (port != nullptr) {
            node.rails.push_back(rail_of(fabric, *hca, *port, *used));
        }
    }
    if (node.rails.empty()) {
        node.problem = why_none(fabric, choice);
    }
    return node;
}

std::vector<std::optional<unsigned>> rail_gpus(const NodePlacement& placed, const Node& node) {
    const auto& ranks = placed.placement.ranks;
    std::vector<unsigned> all;
    for (const auto& rank : ranks) {
        if (!rank.gpus.empty()) {
            all.push_back(static_cast<unsigned>(rank.gpus.front()));
        }
    }
    std::vector<std::optional<unsigned>> gpus;
    for (const auto& rail : node.rails) {
        const auto near = std::ranges::find_if(ranks, [&](const RankPlacement& rank) {
            return !rank.gpus.empty() && !rank.hcas.empty() && rank.hcas.front() < placed.ports.size() &&
                   placed.ports[rank.hcas.front()] == rail_name(rail);
        });
        gpus.push_back(near != ranks.end() ? std::optional(static_cast<unsigned>(near->gpus.front()))
                       : all.empty()       ? std::nullopt
                                           : std::optional(all[gpus.size() % all.size()]));
    }
    return gpus;
}

} // namespace rdma_nccl::measure
