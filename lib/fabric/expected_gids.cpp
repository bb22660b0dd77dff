// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/expected_gids.h"

#include <algorithm>
#include <set>

namespace rdma_nccl {

namespace {

using Names = std::set<std::string, std::less<>>;

/// Returns the interfaces of the HCA's own function that belong to this port.
Names interfaces_of(const std::vector<Netdev>& netdevs, const Hca& hca, const Port& port) {
    Names names;
    for (const auto& netdev : netdevs) {
        const bool of_hca = std::ranges::find(hca.netdevs, netdev.name) != hca.netdevs.end();
        if (of_hca && (hca.ports.size() == 1 || netdev.port == port.number)) {
            names.insert(netdev.name);
        }
    }
    return names;
}

/// Adds all interfaces stacked on those in `names`.
void add_what_stands_on(Names& names, const std::vector<Netdev>& netdevs) {
    for (bool more = true; more;) {
        more = false;
        for (const auto& netdev : netdevs) {
            const bool stands =
                std::ranges::any_of(netdev.lowers, [&](const auto& lower) { return names.contains(lower); });
            more = (stands && names.insert(netdev.name).second) || more;
        }
    }
}

bool has(const std::vector<Gid>& gids, const std::string& netdev, const IpAddress& address, GidType type) {
    return std::ranges::any_of(
        gids, [&](const Gid& gid) { return gid.type == type && gid.value == address && gid.netdev == netdev; });
}

} // namespace

ExpectedGids::ExpectedGids(const std::vector<Netdev>& netdevs, const Hca& hca, const Port& port) {
    auto names = interfaces_of(netdevs, hca, port);
    add_what_stands_on(names, netdevs);
    for (const auto& netdev : netdevs) {
        for (const auto& entry : netdev.addresses) {
            if (names.contains(netdev.name)) {
                entries_.emplace_back(netdev.name, entry.address);
            }
        }
    }
}

bool ExpectedGids::are_all_in(const std::vector<Gid>& gids) const {
    return std::ranges::any_of(entries_, [](const auto& entry) { return !entry.second.is_link_local(); }) &&
           gids.size() >= 2 * entries_.size() && std::ranges::all_of(entries_, [&](const auto& entry) {
               return has(gids, entry.first, entry.second, GidType::RoceV1) &&
                      has(gids, entry.first, entry.second, GidType::RoceV2);
           });
}

} // namespace rdma_nccl
