// SPDX-License-Identifier: Apache-2.0
// Fabrics as plain values, for tests of the decisions.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/select/port_selection.h"

#include <algorithm>
#include <string>
#include <vector>

namespace rdma_nccl::test {

inline Gid make_gid(unsigned index, const std::string& address, std::optional<GidType> type,
                    const std::string& netdev) {
    Gid gid;
    gid.index = index;
    gid.value = IpAddress::parse(address).value();
    gid.type = type;
    gid.type_problem = type ? TypeProblem::None : TypeProblem::Unreadable;
    gid.type_text = type ? "" : "Invalid argument";
    gid.netdev = netdev;
    return gid;
}

/// Adds `address` twice, as v1 at `index` and as v2 behind it, as the kernel does for mlx5.
inline void add_both(Port& port, unsigned index, const std::string& address, const std::string& netdev) {
    port.gids.push_back(make_gid(index, address, GidType::RoceV1, netdev));
    port.gids.push_back(make_gid(index + 1, address, GidType::RoceV2, netdev));
}

inline Port make_port(LinkLayer layer = LinkLayer::Ethernet, double gbps = 200) {
    Port port;
    port.state = "ACTIVE";
    port.physical_state = "LinkUp";
    port.link_layer = layer;
    port.rate_gbps = gbps;
    port.gid_table_length = 256;
    return port;
}

inline Netdev make_netdev(const std::string& name, const std::string& pci_path = "") {
    Netdev netdev;
    netdev.name = name;
    netdev.up = true;
    netdev.pci_path = pci_path;
    return netdev;
}

inline constexpr const char* link_local_gid = "fe80::e42:a1ff:fe2b:3c4d";

/// An mlx5 card with one RoCE port: fe80 at 0 and 1, `address` (if any) at 2 and 3, and its interface.
inline Hca& add_roce(Fabric& fabric, const std::string& name, const std::string& netdev, const std::string& address,
                     const std::string& pci_path = "", double gbps = 200) {
    Hca hca;
    hca.name = name;
    hca.node_type = "CA";
    hca.driver = "mlx5_core";
    hca.pci_path = pci_path;
    hca.pci = pci_path.substr(pci_path.rfind('/') + 1);
    hca.netdevs = {netdev};
    hca.ports = {make_port(LinkLayer::Ethernet, gbps)};
    add_both(hca.ports[0], 0, link_local_gid, netdev);
    if (!address.empty()) {
        add_both(hca.ports[0], 2, address, netdev);
    }
    fabric.netdevs.push_back(make_netdev(netdev, pci_path));
    if (!address.empty()) {
        fabric.netdevs.back().addresses.push_back({IpAddress::parse(address).value(), 24});
    }
    fabric.hcas.push_back(std::move(hca));
    return fabric.hcas.back();
}

inline Hca& add_infiniband(Fabric& fabric, const std::string& name, const std::string& pci_path = "",
                           double gbps = 400) {
    Hca hca;
    hca.name = name;
    hca.node_type = "CA";
    hca.driver = "mlx5_core";
    hca.pci_path = pci_path;
    hca.pci = pci_path.substr(pci_path.rfind('/') + 1);
    hca.ports = {make_port(LinkLayer::InfiniBand, gbps)};
    hca.ports[0].gids.push_back(make_gid(0, "fe80::1", GidType::RoceV1, ""));
    fabric.hcas.push_back(std::move(hca));
    return fabric.hcas.back();
}

inline void add_gpu(Fabric& fabric, const std::string& pci_path) {
    Gpu gpu;
    gpu.pci_path = pci_path;
    gpu.pci = pci_path.substr(pci_path.rfind('/') + 1);
    gpu.vendor = "nvidia";
    fabric.gpus.push_back(gpu);
}

inline const PortChoice& port_of(const FabricChoice& choice, const std::string& hca, unsigned port = 1) {
    return *std::find_if(choice.ports.begin(), choice.ports.end(),
                         [&](const PortChoice& entry) { return entry.hca == hca && entry.port == port; });
}

inline std::string reason_of(const FabricChoice& choice, const std::string& hca, unsigned port = 1) {
    return port_of(choice, hca, port).reason;
}

} // namespace rdma_nccl::test
