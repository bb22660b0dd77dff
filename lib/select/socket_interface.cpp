// SPDX-License-Identifier: Apache-2.0
#include "lib/select/port_selection.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

using AddressTest = bool (*)(const IpAddress&);

/// Returns the first address that passes the test, of the wanted family if possible.
std::optional<IpAddress> find_address(const Netdev& netdev, FamilyChoice family, AddressTest test) {
    const bool ipv4_first = family != FamilyChoice::Ipv6;
    for (const bool ipv4 : {ipv4_first, !ipv4_first}) {
        for (const auto& entry : netdev.addresses) {
            if (entry.address.is_ipv4() == ipv4 && test(entry.address)) {
                return entry.address;
            }
        }
    }
    return std::nullopt;
}

bool is_routable(const IpAddress& address) {
    return address.is_routable();
}

bool is_any(const IpAddress& address) {
    return !address.is_zero();
}

/// Returns the interface with its best routable address; nullopt if it is down or has none.
std::optional<SocketChoice> routable_choice(const Fabric& fabric, std::string_view name, FamilyChoice family,
                                            std::string why) {
    const Netdev* const netdev = fabric.find_netdev(name);
    if (netdev == nullptr || !netdev->up || netdev->loopback) {
        return std::nullopt;
    }
    const auto address = find_address(*netdev, family, is_routable);
    if (!address) {
        return std::nullopt;
    }
    return SocketChoice{netdev->name, address, std::move(why), {}};
}

std::optional<SocketChoice> by_default_route(const Fabric& fabric, FamilyChoice family) {
    for (const auto& name : fabric.default_route_netdevs) {
        if (auto choice = routable_choice(fabric, name, family, "has the default route")) {
            return choice;
        }
    }
    return std::nullopt;
}

/// Returns the interfaces of a used port: for RoCE that of its GID, for InfiniBand those of IPoIB.
std::vector<std::string> netdevs_of(const Fabric& fabric, const PortChoice& port) {
    const Hca* const hca = fabric.find_hca(port.hca);
    if (hca == nullptr || !port.gid_index) {
        return hca == nullptr ? std::vector<std::string>{} : hca->netdevs;
    }
    std::vector<std::string> names;
    for (const auto& fact : hca->ports) {
        for (const auto& gid : fact.gids) {
            if (fact.number == port.port && gid.index == *port.gid_index) {
                names.push_back(gid.netdev);
            }
        }
    }
    return names;
}

std::optional<SocketChoice> by_used_port(const Fabric& fabric, const FabricChoice& fabric_choice, FamilyChoice family) {
    for (const PortChoice* const port : fabric_choice.used()) {
        for (const auto& name : netdevs_of(fabric, *port)) {
            if (auto choice = routable_choice(fabric, name, family, format_text("is the interface of {}", port->hca))) {
                return choice;
            }
        }
    }
    return std::nullopt;
}

bool is_local_only(std::string_view name) {
    constexpr std::array<std::string_view, 4> prefixes = {"docker", "virbr", "veth", "br-"};
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::optional<SocketChoice> by_any(const Fabric& fabric, FamilyChoice family) {
    for (const auto& netdev : fabric.netdevs) {
        if (is_local_only(netdev.name)) {
            continue;
        }
        if (auto choice = routable_choice(fabric, netdev.name, family, "is the first with a routable address")) {
            return choice;
        }
    }
    return std::nullopt;
}

SocketChoice choose_automatically(const Fabric& fabric, const FabricChoice& fabric_choice, FamilyChoice family) {
    if (auto choice = by_default_route(fabric, family)) {
        return std::move(*choice);
    }
    if (auto choice = by_used_port(fabric, fabric_choice, family)) {
        return std::move(*choice);
    }
    if (auto choice = by_any(fabric, family)) {
        return std::move(*choice);
    }
    return {{},
            std::nullopt,
            "no interface is up with a routable address",
            {"no interface is up with an address that other nodes could reach; name one with net="}};
}

std::string netdev_names(const Fabric& fabric) {
    constexpr std::size_t most_names = 16;
    std::string text;
    for (std::size_t i = 0; i < fabric.netdevs.size() && i < most_names; ++i) {
        text += (i == 0 ? "" : ", ") + fabric.netdevs[i].name;
    }
    return fabric.netdevs.size() > most_names ? text + ", ..." : text;
}

/// Handles net=IFNAME. The user may name any interface with an address, even a link-local one.
Result<SocketChoice> by_name(const Fabric& fabric, const Settings& settings) {
    const auto& name = settings.net.interface;
    const Netdev* const netdev = fabric.find_netdev(name);
    if (netdev == nullptr) {
        return fail(
            format_text("net={}: no such interface on this node; there are {}", printable(name), netdev_names(fabric)));
    }
    if (!netdev->up) {
        return fail(format_text("net={}: the interface is down; bring it up", name));
    }
    auto address = find_address(*netdev, settings.family, is_routable);
    address = address ? address : find_address(*netdev, settings.family, is_any);
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
