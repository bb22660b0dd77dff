// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/traffic/traffic.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

std::string file_of(const Netdev& netdev, std::string_view name) {
    return format_text("/sys/class/net/{}/{}", netdev.name, name);
}

/// Compares with ARPHRD_INFINIBAND of <linux/if_arp.h>.
bool is_ipoib(const SysRoot& root, const Netdev& netdev) {
    return root.read(file_of(netdev, "type"), 16).value_or("") == "32";
}

bool is_bond(const SysRoot& root, const Netdev& netdev) {
    return root.exists(file_of(netdev, "bonding"));
}

/// Returns true for the host's side of a virtual function or subfunction, "pf0vf3", "c1pf0sf88" (kernel
/// Documentation/networking/representors.rst). The other side counts its traffic.
bool is_representor(const SysRoot& root, const Netdev& netdev) {
    const auto name = root.read(file_of(netdev, "phys_port_name"), 32).value_or("");
    return name.find("pf") != std::string::npos &&
           (name.find("vf") != std::string::npos || name.find("sf") != std::string::npos);
}

/// Counts not a bond of IPoIB interfaces but its slaves, which have a port each.
bool counts(const SysRoot& root, const Netdev& netdev) {
    const bool on_hardware = netdev.port.has_value();
    return !netdev.loopback && (on_hardware ? !is_representor(root, netdev)
                                            : is_bond(root, netdev) != is_ipoib(root, netdev)); // or a child of ib0
}

/// For a network namespace without hardware: excludes bridges and tunnels to programs of this node.
bool counts_in_container(const SysRoot& root, const Netdev& netdev) {
    return !netdev.loopback && netdev.lowers.empty() && !root.exists(file_of(netdev, "bridge")) &&
           !root.exists(file_of(netdev, "tun_flags"));
}

std::vector<const Netdev*> counted_netdevs(const SysRoot& root, const Fabric& fabric) {
    std::vector<const Netdev*> counted;
    for (const auto& netdev : fabric.netdevs) {
        if (counts(root, netdev)) {
            counted.push_back(&netdev);
        }
    }
    std::erase_if(counted, [all = counted](const Netdev* netdev) {
        return std::ranges::find(all, netdev->upper, &Netdev::name) != all.end();
    });
    if (counted.empty()) {
        for (const auto& netdev : fabric.netdevs) {
            if (counts_in_container(root, netdev)) {
                counted.push_back(&netdev);
            }
        }
    }
    return counted;
}

/// Returns true if packets of `name` pass `counted`: the interface itself, the bond above it, or one below a VLAN.
bool passes(const Fabric& fabric, std::string_view name, const Netdev& counted, unsigned depth = 0) {
    constexpr unsigned deepest = 8; // the kernel's nesting limit
    const Netdev* const netdev = fabric.find_netdev(name);
    if (name == counted.name || netdev == nullptr || depth > deepest) {
        return name == counted.name;
    }
    return netdev->upper == counted.name || std::ranges::any_of(netdev->lowers, [&](const std::string& lower) {
               return passes(fabric, lower, counted, depth + 1);
           });
}

/// Returns the port that carries an IPoIB interface. A child, "ib0.8001", has its base's PCI function.
std::string ipoib_port(const Fabric& fabric, const Netdev& netdev) {
    const Netdev* const base = netdev.port ? &netdev : fabric.find_netdev(split_once(netdev.name, '.').key);
    for (const auto& hca : fabric.hcas) {
        if (base != nullptr && !hca.pci_path.empty() && hca.pci_path == base->pci_path) {
            return port_name(hca.name, base->port.value_or(1));
        }
    }
    return {};
}

/// LRH 8, BTH 12, DETH 8, both CRCs 6 (InfiniBand Architecture, volume 1, chapter 9). Then the headers of IP and TCP,
/// which the HCA repeats in each packet that it makes of one packet of the interface (LSO).
constexpr unsigned ipoib_headers = 34 + 52;
constexpr unsigned greatest_datagram = 4092; // a larger MTU means connected mode, whose packets the HCA splits

bool has_ipv4(const Hca& hca) {
    return std::ranges::any_of(hca.ports, [](const Port& port) {
        return std::ranges::any_of(port.gids, [](const Gid& gid) { return gid.value.is_ipv4(); });
    });
}

/// The headers of RoCE v2: Ethernet 14, IPv4 20 or IPv6 40, UDP 8, BTH 12, ICRC 4.
unsigned roce_headers(const Hca& hca) {
    return 14 + (has_ipv4(hca) ? 20 : 40) + 8 + 12 + 4;
}

NetdevSource source_of(const SysRoot& root, const Fabric& fabric, const Netdev& netdev) {
    if (is_ipoib(root, netdev)) {
        const unsigned packet = netdev.mtu > 0 && netdev.mtu <= greatest_datagram ? netdev.mtu : 2044;
        return {netdev.name, NetdevRole::Ipoib, ipoib_port(fabric, netdev), packet, ipoib_headers};
    }
    NetdevSource source{netdev.name, NetdevRole::Plain, {}, 0, 0};
    for (const auto& hca : fabric.hcas) {
        const auto below = is_software(hca) ? netdevs_below(root, fabric, hca) : std::vector<std::string>{};
        if (std::ranges::any_of(below, [&](const std::string& name) { return passes(fabric, name, netdev); })) {
            source = {netdev.name, NetdevRole::IncludesRdma, format_text("{}:1", hca.name), path_mtu(netdev.mtu),
                      roce_headers(hca)};
        }
    }
    return source;
}

/// siw's only GID begins with the MAC of its interface (drivers/infiniband/sw/siw: siw_query_gid).
bool has_mac_of(const SysRoot& root, const Hca& hca, const Netdev& netdev) {
    constexpr std::size_t mac_digits = 12;
    auto mac = root.read(file_of(netdev, "address"), 64).value_or("");
    std::erase(mac, ':');
    if (mac.size() != mac_digits || hca.ports.empty() || hca.ports.front().gids.empty()) {
        return false;
    }
    std::string gid;
    for (const auto byte : hca.ports.front().gids.front().value.bytes()) {
        gid += format_text("{:02x}", byte);
    }
    return gid.starts_with(mac);
}

} // namespace

bool is_software(const Hca& hca) {
    return hca.pci.empty() && hca.driver.empty();
}

std::vector<std::string> netdevs_below(const SysRoot& root, const Fabric& fabric, const Hca& hca) {
    const auto parent = root.read(format_text("/sys/class/infiniband/{}/parent", hca.name), 64); // rxe has this file
    if (parent && fabric.find_netdev(*parent) != nullptr) {
        return {*parent};
    }
    std::vector<std::string> names = hca.netdevs;
    for (const auto& netdev : fabric.netdevs) {
        if (names.empty() && !netdev.loopback && has_mac_of(root, hca, netdev)) {
            names.push_back(netdev.name);
        }
    }
    return names;
}

unsigned path_mtu(unsigned netdev_mtu) {
    constexpr unsigned longest_headers = 80;
    constexpr unsigned usual = 1024;
    unsigned mtu = 256;
    while (mtu < 4096 && 2 * mtu + longest_headers <= netdev_mtu) {
        mtu *= 2;
    }
    return netdev_mtu == 0 ? usual : mtu;
}

std::vector<NetdevSource> netdev_sources(const SysRoot& root, const Fabric& fabric) {
    std::vector<NetdevSource> sources;
    for (const Netdev* netdev : counted_netdevs(root, fabric)) {
        sources.push_back(source_of(root, fabric, *netdev));
    }
    return sources;
}

} // namespace rdma_nccl
