// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/select/candidates.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

/// Returns the first address, routable or at least not zero, of the wanted family if possible.
std::optional<IpAddress> find_address(const Netdev& netdev, FamilyChoice family, bool routable = true) {
    const bool ipv4_first = family != FamilyChoice::Ipv6;
    for (const bool ipv4 : {ipv4_first, !ipv4_first}) {
        for (const auto& [address, length] : netdev.addresses) {
            if (address.is_ipv4() == ipv4 && (routable ? address.is_routable() : !address.is_zero())) {
                return address;
            }
        }
    }
    return std::nullopt;
}

/// Returns the interface with its best routable address; nullopt if it is down or has none.
std::optional<SocketChoice> routable_choice(const Fabric& fabric, std::string_view name, FamilyChoice family,
                                            std::string why) {
    const Netdev* const netdev = fabric.find_netdev(name);
    if (netdev == nullptr || !netdev->up || netdev->loopback) {
        return std::nullopt;
    }
    const auto address = find_address(*netdev, family);
    return address ? std::optional(SocketChoice{netdev->name, address, std::move(why), {}}) : std::nullopt;
}

/// Returns the interfaces of a used port: for RoCE that of its GID, for InfiniBand those of IPoIB.
std::vector<std::string> socket_netdevs_of(const Fabric& fabric, const PortChoice& choice) {
    const Hca* const hca = fabric.find_hca(choice.hca);
    const Port* const port = fabric.find_port(choice.hca, choice.port);
    if (hca == nullptr || !choice.gid_index) {
        return hca == nullptr ? std::vector<std::string>{} : hca->netdevs;
    }
    const Gid* const gid = port == nullptr ? nullptr : find_by(port->gids, &Gid::index, *choice.gid_index);
    return gid == nullptr ? std::vector<std::string>{} : std::vector{gid->netdev};
}

bool is_local_only(std::string_view name) {
    constexpr std::array<std::string_view, 4> prefixes = {"docker", "virbr", "veth", "br-"};
    return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

SocketChoice choose_automatically(const Fabric& fabric, const FabricChoice& fabric_choice, FamilyChoice family) {
    for (const auto& name : fabric.default_route_netdevs) {
        if (auto choice = routable_choice(fabric, name, family, "has the default route")) {
            return std::move(*choice);
        }
    }
    if (auto choice = interface_of_used_port(fabric, fabric_choice, family)) {
        return std::move(*choice);
    }
    for (const auto& netdev : fabric.netdevs) {
        auto choice = is_local_only(netdev.name)
                          ? std::nullopt
                          : routable_choice(fabric, netdev.name, family, "is the first with a routable address");
        if (choice) {
            return std::move(*choice);
        }
    }
    return {{},
            std::nullopt,
            "no interface is up with a routable address",
            {"no interface is up with an address that other nodes could reach; name one with net="}};
}

/// Handles net=IFNAME. The user may name any interface with an address, even a link-local one.
Result<SocketChoice> by_name(const Fabric& fabric, const Settings& settings) {
    const auto& name = settings.net.interface;
    const Netdev* const netdev = fabric.find_netdev(name);
    if (netdev == nullptr) {
        constexpr std::size_t max_names = 16;
        return fail(format_text("net={}: no such interface on this node; there are {}", printable(name),
                                first_names(fabric.netdevs, max_names)));
    }
    if (!netdev->up) {
        return fail(format_text("net={}: the interface is down; bring it up", name));
    }
    auto address = find_address(*netdev, settings.family);
    address = address ? address : find_address(*netdev, settings.family, false);
    if (!address) {
        return fail(format_text("net={}: the interface has no address; give it one", name));
    }
    return SocketChoice{name, address, format_text("net={}", name), {}};
}

/// Handles net=CIDR.
Result<SocketChoice> by_network(const Fabric& fabric, const IpPrefix& network) {
    std::string down;
    for (const auto& netdev : fabric.netdevs) {
        for (const auto& entry : netdev.addresses) {
            if (network.contains(entry.address) && netdev.up) {
                return SocketChoice{netdev.name, entry.address, format_text("net={}", network.text()), {}};
            }
            if (network.contains(entry.address)) {
                down = netdev.name;
            }
        }
    }
    return fail(down.empty() ? format_text("net={}: no interface of this node has an address in it", network.text())
                             : format_text("net={}: {}, which has an address in it, is down", network.text(), down));
}

} // namespace

std::optional<SocketChoice> interface_of_used_port(const Fabric& fabric, const FabricChoice& choice,
                                                   FamilyChoice family, std::string_view name) {
    for (const PortChoice* const port : choice.used()) {
        for (const auto& each : socket_netdevs_of(fabric, *port)) {
            auto found = name.empty() || name == each
                             ? routable_choice(fabric, each, family, format_text("is the interface of {}", port->hca))
                             : std::nullopt;
            if (found) {
                return found;
            }
        }
    }
    return std::nullopt;
}

SocketChoice choose_socket_interface(const Fabric& fabric, const FabricChoice& choice, const Settings& settings) {
    if (settings.net.is_auto()) {
        return choose_automatically(fabric, choice, settings.family);
    }
    auto named = settings.net.prefix ? by_network(fabric, *settings.net.prefix) : by_name(fabric, settings);
    if (named) {
        return std::move(*named);
    }
    auto fallback = choose_automatically(fabric, choice, settings.family);
    fallback.warnings.insert(
        fallback.warnings.begin(),
        format_text("{}: {}", named.error().message,
                    fallback.interface.empty() ? "none is used" : fallback.interface + " is used instead"));
    return fallback;
}

} // namespace rdma_nccl
