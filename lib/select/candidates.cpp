// SPDX-License-Identifier: Apache-2.0
#include "lib/select/candidates.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"

#include <cmath>

namespace rdma_nccl {

std::string PortCandidate::name() const {
    return format_text("{} port {}", hca->name, port->number);
}

std::vector<PortCandidate*> Selection::remaining() {
    std::vector<PortCandidate*> result;
    for (auto& candidate : candidates) {
        if (candidate.remains()) {
            result.push_back(&candidate);
        }
    }
    return result;
}

std::vector<std::string> netdevs_of(const Fabric& fabric, const PortCandidate& candidate) {
    if (candidate.hca->ports.size() == 1) {
        return candidate.hca->netdevs;
    }
    std::vector<std::string> names;
    for (const auto& name : candidate.hca->netdevs) {
        const Netdev* const netdev = fabric.find_netdev(name);
        if (netdev != nullptr && netdev->port == candidate.port->number) {
            names.push_back(name);
        }
    }
    for (const auto& gid : candidate.port->gids) {
        if (!gid.netdev.empty()) {
            add_once(names, gid.netdev);
        }
    }
    return names;
}

std::vector<std::string> with_lowers(const Fabric& fabric, const std::string& name) {
    std::vector<std::string> names = {name};
    // Open vSwitch has a single datapath for all its bridges above their members. A bridge's own interface has no links
    // to the members.
    const Netdev* const top = fabric.find_netdev(name);
    if (top != nullptr && top->lowers.empty() && top->upper.empty() && top->pci_path.empty()) {
        names.emplace_back("ovs-system");
    }
    for (std::size_t i = 0; i < names.size(); ++i) { // names grows during the loop; each name is added once
        const Netdev* const upper = fabric.find_netdev(names[i]);
        for (const auto& netdev : fabric.netdevs) {
            if (netdev.upper == names[i] || (upper != nullptr && contains(upper->lowers, netdev.name))) {
                add_once(names, netdev.name);
            }
        }
    }
    return names;
}

std::string_view pci_path_of(const Fabric& fabric, const Hca& hca) {
    if (!hca.pci_path.empty()) {
        return hca.pci_path;
    }
    for (const auto& name : hca.netdevs) {
        const Netdev* const netdev = fabric.find_netdev(name);
        if (netdev != nullptr && !netdev->pci_path.empty()) {
            return netdev->pci_path;
        }
    }
    return {};
}

bool shares_switch_with_gpu(const Fabric& fabric, const Hca& hca) {
    return std::ranges::any_of(
        fabric.gpus, [&](const Gpu& gpu) { return share_pcie_switch(pci_path_of(fabric, hca), gpu.pci_path); });
}

std::optional<std::string> default_route_above(const Fabric& fabric, const PortCandidate& candidate) {
    const auto own = netdevs_of(fabric, candidate);
    for (const auto& carrier : fabric.default_route_netdevs) {
        const auto below = with_lowers(fabric, carrier);
        if (std::ranges::any_of(own, [&](const std::string& name) { return contains(below, name); })) {
            return carrier;
        }
    }
    return std::nullopt;
}

double link_gbps(const Fabric& fabric, const PortCandidate& candidate) {
    double slave_gbps = 0;
    if (candidate.gid.gid != nullptr) {
        const auto below = with_lowers(fabric, candidate.gid.gid->netdev);
        for (const auto& name : below) {
            const Netdev* const netdev = fabric.find_netdev(name);
            if (netdev != nullptr && contains(below, netdev->upper)) {
                slave_gbps = std::max(slave_gbps, netdev->speed_gbps);
            }
        }
    }
    return slave_gbps > 0 ? slave_gbps : candidate.port->believable_rate_gbps();
}

bool same_rate_class(double gbps_a, double gbps_b) {
    constexpr double rounding = 0.1;
    return std::abs(gbps_a - gbps_b) <= rounding * std::max(gbps_a, gbps_b);
}

} // namespace rdma_nccl
