// SPDX-License-Identifier: Apache-2.0
#include "lib/select/rails.h"

#include "lib/base/lists.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>

namespace rdma_nccl {

std::optional<IpPrefix> network_of_gid(const Fabric& fabric, const PortChoice& choice) {
    const Port* const port = fabric.find_port(choice.hca, choice.port);
    const auto* const gid =
        port == nullptr || !choice.gid_index ? nullptr : find_by(port->gids, &Gid::index, *choice.gid_index);
    const Netdev* const netdev = gid == nullptr ? nullptr : fabric.find_netdev(gid->netdev);
    const auto* const own =
        netdev == nullptr ? nullptr : find_by(netdev->addresses, &InterfaceAddress::address, gid->value);
    return own == nullptr ? std::nullopt : IpPrefix::of(own->address, own->prefix_length);
}

bool is_point_to_point(const IpPrefix& network) {
    return network.length() >= (network.address().is_ipv4() ? 31U : 127U);
}

std::vector<const PortChoice*> in_order_of_nccl(const Fabric& fabric, const FabricChoice& choice) {
    auto ports = choice.used();
    std::ranges::stable_sort(ports, {}, [&fabric](const PortChoice* port) {
        const Hca* const hca = fabric.find_hca(port->hca);
        const std::string pci = hca == nullptr ? std::string() : hca->pci;
        return std::pair(pci.empty(), pci);
    });
    return ports;
}

std::optional<unsigned> Rails::of(std::string_view port) const {
    const auto found = by_port.find(port);
    return found == by_port.end() ? std::nullopt : std::optional(found->second);
}

Rails rails_of(const Fabric& fabric, const FabricChoice& choice) {
    const auto ports = in_order_of_nccl(fabric, choice);
    if (ports.size() < 2) {
        return {};
    }
    std::vector<IpPrefix> of_ports;
    for (const auto* const port : ports) {
        if (const auto network = network_of_gid(fabric, *port); network && !is_point_to_point(*network)) {
            of_ports.push_back(*network);
        }
    }
    const std::set<IpPrefix> networks(of_ports.begin(), of_ports.end());
    const bool by_network = of_ports.size() == ports.size() && networks.size() > 1;
    Rails rails{{}, by_network ? "by network" : "by PCI address"};
    for (std::size_t i = 0; i < ports.size(); ++i) {
        const auto place =
            by_network ? std::distance(networks.begin(), networks.find(of_ports[i])) : static_cast<std::ptrdiff_t>(i);
        rails.by_port.emplace(ports[i]->name(), static_cast<unsigned>(place));
    }
    return rails;
}

} // namespace rdma_nccl
