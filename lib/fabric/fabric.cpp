// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/fabric.h"

#include "lib/base/format.h"
#include "lib/fabric/readers.h"

namespace rdma_nccl {

namespace {

/// Returns the speed of the first interface with a known one: first those that the port's GIDs name, then those of its
/// PCI function; else 0.
double netdev_speed(const Fabric& fabric, const Hca& hca, const Port& port) {
    for (const auto& gid : port.gids) {
        const Netdev* const netdev = fabric.find_netdev(gid.netdev);
        if (netdev != nullptr && netdev->speed_gbps > 0) {
            return netdev->speed_gbps;
        }
    }
    for (const auto& name : hca.netdevs) {
        const Netdev* const netdev = fabric.find_netdev(name);
        if (netdev != nullptr && netdev->speed_gbps > 0 && (hca.ports.size() == 1 || netdev->port == port.number)) {
            return netdev->speed_gbps;
        }
    }
    return 0;
}

} // namespace

const Port* Fabric::find_port(std::string_view hca, unsigned number) const {
    const Hca* const found = find_hca(hca);
    return found == nullptr ? nullptr : find_by(found->ports, &Port::number, number);
}

std::string port_name(std::string_view hca, unsigned port) {
    return format_text("{}:{}", hca, port);
}

Fabric read_fabric(const SysRoot& root, const UnresponsiveHcas& unresponsive, GidTables tables) {
    Fabric fabric;
    Notes notes;
    fabric.hcas = read_hcas(root, unresponsive, notes);
    std::set<std::string, std::less<>> unresponsive_netdevs; // they have the same drivers, so are not queried either
    for (auto& hca : fabric.hcas) {
        if (!hca.answers) {
            read_gid_tables(root, hca); // its GIDs also tell which interfaces its driver has
            unresponsive_netdevs.insert(hca.netdevs.begin(), hca.netdevs.end());
        }
    }
    fabric.netdevs = read_netdevs(root, unresponsive_netdevs, notes);
    const bool has_addresses = add_known_addresses(root, fabric.netdevs, notes);
    for (auto& hca : fabric.hcas) {
        if (hca.answers) {
            read_gid_tables(root, hca, tables == GidTables::Expected && has_addresses ? &fabric.netdevs : nullptr);
        }
    }
    if (!has_addresses) {
        add_copied_addresses(root, fabric.hcas, fabric.netdevs, notes);
    }
    fabric.default_route_netdevs = read_default_route_netdevs(root, notes);
    fabric.gpus = read_gpus(root, notes);
    for (auto& hca : fabric.hcas) {
        for (auto& port : hca.ports) {
            port.netdev_gbps = netdev_speed(fabric, hca, port);
        }
    }
    fabric.problems = notes.take();
    return fabric;
}

} // namespace rdma_nccl
