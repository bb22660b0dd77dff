// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/fabric/kernel_text.h"
#include "lib/fabric/readers.h"
#include "lib/net/tcp.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <span>

namespace rdma_nccl {

namespace {

constexpr std::string_view class_directory = "/sys/class/net";
constexpr std::size_t max_netdevs = 4096;
constexpr std::size_t short_file = 64;

// <linux/if.h> and <linux/if_arp.h>
constexpr unsigned long flag_up = 0x1;
constexpr unsigned long flag_loopback = 0x8;

/// The carrier file gives EINVAL while the interface is down, and operstate is "unknown" for drivers that do not
/// maintain it (loopback). An interface of which neither can be read is not called down.
bool has_carrier(const Directory& directory) {
    if (const auto carrier = directory.read("carrier", short_file)) {
        return *carrier == "1";
    }
    const auto state = directory.read("operstate", short_file).value_or("unknown");
    return state == "up" || state == "unknown";
}

void read_flags(const Directory& directory, Netdev& netdev, Notes& notes) {
    const auto text = directory.read("flags", short_file); // "0x1003"
    const auto flags =
        text && text->starts_with("0x") ? parse_number<unsigned long>(text->substr(2), 16) : std::nullopt;
    if (!flags) {
        notes.add(text ? format_text("{}: flags '{}' are no number", netdev.name, printable(*text, 40))
                       : format_text("{}: {}", netdev.name, text.error().message));
    }
    netdev.up = (flags.value_or(flag_up) & flag_up) != 0 && has_carrier(directory);
    netdev.loopback = flags ? (*flags & flag_loopback) != 0 : netdev.name == "lo";
}

/// The speed file has Mb/s; -1 or EINVAL means unknown.
double read_speed_gbps(const Directory& directory) {
    const auto speed = parse_number<long>(directory.read("speed", short_file).value_or("")).value_or(0);
    constexpr long unknown = 0xffffffff; // SPEED_UNKNOWN as older kernels print it
    return speed > 0 && speed < unknown ? static_cast<double>(speed) / 1000 : 0;
}

void read_links(const SysRoot& root, const std::string& path, const Directory& directory, Netdev& netdev) {
    constexpr std::string_view lower_link = "lower_";
    for (const auto& entry : directory.list().value_or(std::vector<std::string>{})) {
        if (entry == "device") {
            const auto device = root.resolve(path + "/device").value_or("");
            netdev.pci_path = pci_function_path(device);
            netdev.usb = device.find("/usb") != std::string::npos;
            netdev.port = parse_number<unsigned>(directory.read("dev_port", short_file).value_or("0")).value_or(0) + 1;
        } else if (entry == "bridge") {
            netdev.bridge = root.read(path + "/bridge/bridge_id", short_file).has_value();
        } else if (entry == "master") {
            const auto upper = directory.read_link("master").value_or("");
            netdev.upper = is_netdev_name(base_name(upper)) ? base_name(upper) : "";
        } else if (entry.starts_with(lower_link) && is_netdev_name(entry.substr(lower_link.size()))) {
            netdev.lowers.push_back(entry.substr(lower_link.size()));
        }
    }
}

Netdev read_netdev(const SysRoot& root, const std::string& name, const Directory& directory, bool answers,
                   Notes& notes) {
    Netdev netdev;
    netdev.name = name;
    read_flags(directory, netdev, notes);
    netdev.ifindex = parse_number<unsigned>(directory.read("ifindex", short_file).value_or("")).value_or(0);
    netdev.order = netdev.ifindex;
    netdev.mtu = parse_number<unsigned>(directory.read("mtu", short_file).value_or("")).value_or(0);
    if (!answers) {
        notes.add(format_text("{} is of an HCA that does not answer: its speed is not asked for", name));
    }
    netdev.speed_gbps = answers ? read_speed_gbps(directory) : 0;
    read_links(root, format_text("{}/{}", class_directory, name), directory, netdev);
    return netdev;
}

/// `depth` limits the recursion: in a broken tree interfaces may be below each other.
bool stands_on_hardware(const std::vector<Netdev>& netdevs, const Netdev& netdev, unsigned depth) {
    return netdev.port || (depth > 0 && std::ranges::any_of(netdev.lowers, [&](const auto& lower) {
                               const auto* const below = find_by(netdevs, &Netdev::name, lower);
                               return below != nullptr && stands_on_hardware(netdevs, *below, depth - 1);
                           }));
}

/// More than any compute node has. The default route comes first in /proc/net/route.
constexpr std::size_t max_table = std::size_t{256} * 1024;

/// Returns a table of /proc/net, or "" if there is none. Drops the last, torn line of a table that is too long.
std::string read_table(const SysRoot& root, std::string_view path, Notes& notes) {
    auto text = root.read(path, max_table);
    if (!text) {
        if (text.error().os_error != ENOENT) { // ENOENT: no such protocol, or not copied
            notes.add(text.error().message);
        }
        return {};
    }
    if (text->size() == max_table) {
        notes.add(format_text("{}: longer than {} KiB, the rest is not looked at", path, max_table / 1024));
        text->resize(text->rfind('\n') + 1);
    }
    return std::move(*text);
}

/// Returns the interface; nullptr if there is none of that name.
Netdev* add_address(std::vector<Netdev>& netdevs, const NetdevAddress& entry) {
    Netdev* const netdev = find_by(netdevs, &Netdev::name, entry.netdev);
    if (netdev != nullptr) {
        netdev->addresses.push_back({entry.address, entry.prefix_length});
    }
    return netdev;
}

/// Also numbers the interfaces in the order in which the addresses first name them.
void add_in_order(std::vector<Netdev>& netdevs, const std::vector<NetdevAddress>& entries) {
    std::set<const Netdev*> seen;
    for (const auto& entry : entries) {
        Netdev* const netdev = add_address(netdevs, entry);
        if (netdev != nullptr && seen.insert(netdev).second) {
            netdev->order = static_cast<unsigned>(seen.size());
        }
    }
}

/// Returns the prefix length of a netmask from getifaddrs(3).
unsigned length_of_mask(const sockaddr* mask) {
    const auto address = address_of(mask);
    if (!address) {
        return 0;
    }
    unsigned length = 0;
    for (const auto byte : std::span(address->bytes()).subspan(mask->sa_family == AF_INET ? 12 : 0)) {
        length += static_cast<unsigned>(std::popcount(byte));
    }
    return length;
}

std::vector<NetdevAddress> read_live_addresses(Notes& notes) {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) {
        notes.add(format_text("addresses of the interfaces: {}", std::strerror(errno)));
        return {};
    }
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
    std::vector<NetdevAddress> entries;
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        if (const auto address = address_of(entry->ifa_addr)) {
            const auto name = split_once(entry->ifa_name, ':').key; // "eth0:1" is a labelled address of eth0
            entries.push_back({std::string(name), *address, length_of_mask(entry->ifa_netmask)});
        }
    }
    return entries;
}

/// Returns the most specific direct routes to the address, one per interface; several if its subnet is on several.
std::vector<NetdevAddress> find_direct_routes(const std::vector<Route>& routes, const IpAddress& address) {
    std::vector<NetdevAddress> found;
    unsigned longest = 1; // a direct default route does not identify an interface
    for (const auto& route : routes) {
        const unsigned length = route.destination.length();
        if (!route.direct || length < longest || !route.destination.contains(address)) {
            continue;
        }
        if (length > longest) {
            found.clear();
            longest = length;
        }
        if (find_by(found, &NetdevAddress::netdev, route.netdev) == nullptr) {
            found.push_back({route.netdev, address, length});
        }
    }
    return found;
}

/// Returns the interface of the GID with this address; "" if there is none.
std::string netdev_by_gid(const std::vector<Hca>& hcas, const IpAddress& address) {
    for (const auto& hca : hcas) {
        for (const auto& port : hca.ports) {
            for (const auto& gid : port.gids) {
                if (gid.value == address && !gid.netdev.empty()) {
                    return gid.netdev;
                }
            }
        }
    }
    return "";
}

/// Finds the interface and prefix of an IPv4 address of this machine.
std::optional<NetdevAddress> locate(const IpAddress& address, const std::vector<Hca>& hcas,
                                    const std::vector<Route>& routes, const std::vector<Netdev>& netdevs) {
    if (address.is_loopback()) {
        const auto* const loopback = find_by(netdevs, &Netdev::loopback, true);
        return loopback == nullptr ? std::nullopt : std::optional(NetdevAddress{loopback->name, address, 8});
    }
    const auto direct = find_direct_routes(routes, address);
    if (const auto netdev = netdev_by_gid(hcas, address); !netdev.empty()) {
        const auto* const same = find_by(direct, &NetdevAddress::netdev, netdev);
        return same == nullptr ? NetdevAddress{netdev, address, 32} : *same;
    }
    return direct.size() == 1 ? std::optional(direct.front()) : std::nullopt;
}

/// Returns the interfaces of the default routes with the lowest metric, each once.
std::vector<std::string> default_netdevs(std::vector<Route> routes) {
    std::erase_if(routes, [](const Route& route) { return route.destination.length() != 0 || route.netdev == "lo"; });
    const auto lowest = std::ranges::min_element(routes, {}, &Route::metric);
    std::vector<std::string> netdevs;
    for (const auto& route : routes) {
        if (route.metric == lowest->metric) {
            add_once(netdevs, route.netdev);
        }
    }
    return netdevs;
}

} // namespace

bool is_virtual_bridge(const std::vector<Netdev>& netdevs, std::string_view name) {
    constexpr unsigned max_levels = 4; // bridge, VLAN, bond, interface
    const auto* const netdev = find_by(netdevs, &Netdev::name, name);
    return netdev != nullptr && netdev->bridge && !stands_on_hardware(netdevs, *netdev, max_levels);
}

bool may_have_netdev(const SysRoot& root, const std::string& name) {
    if (!root.is_live()) {
        return root.exists("/sys/class/net/" + name);
    }
    return ::if_nametoindex(name.c_str()) != 0 || errno != ENODEV; // it may fail for want of a socket
}

std::vector<Netdev> read_netdevs(const SysRoot& root, const std::set<std::string, std::less<>>& unresponsive,
                                 Notes& notes) {
    const auto names = root.list(class_directory);
    if (!names) {
        notes.add(names.error().message);
        return {};
    }
    std::vector<Netdev> netdevs;
    for (const auto& name : *names) {
        if (!is_netdev_name(name) || netdevs.size() >= max_netdevs) {
            notes.add(format_text("{}/{}: {}", class_directory, printable(name, 40),
                                  is_netdev_name(name) ? "beyond what is looked at" : "no interface name"));
            continue;
        }
        const auto directory = root.directory(format_text("{}/{}", class_directory, name));
        if (directory && !may_have_netdev(root, name)) {
            continue; // a container with a network of its own that sees the node's /sys
        }
        if (directory) {
            netdevs.push_back(read_netdev(root, name, *directory, !unresponsive.contains(name), notes));
        } else if (directory.error().os_error != ENOTDIR) { // ENOTDIR: bonding_masters is a file among the interfaces
            notes.add(directory.error().message);
            if (!directory.error().is_absent()) { // it is there: GIDs on it are not foreign
                netdevs.emplace_back().name = name;
                netdevs.back().up = true;
            }
        }
    }
    std::ranges::sort(netdevs, natural_name_less, &Netdev::name);
    return netdevs;
}

bool add_known_addresses(const SysRoot& root, std::vector<Netdev>& netdevs, Notes& notes) {
    if (root.is_live()) {
        add_in_order(netdevs, read_live_addresses(notes));
        return true;
    }
    const auto saved = root.read(saved_addresses_path, max_table);
    if (saved) {
        add_in_order(netdevs, parse_saved_addresses(*saved));
    }
    return saved.has_value();
}

void add_copied_addresses(const SysRoot& root, const std::vector<Hca>& hcas, std::vector<Netdev>& netdevs,
                          Notes& notes) {
    const auto routes = parse_ipv4_routes(read_table(root, "/proc/net/route", notes));
    for (const auto& address : parse_fib_trie(read_table(root, "/proc/net/fib_trie", notes))) {
        if (const auto entry = locate(address, hcas, routes, netdevs)) {
            add_address(netdevs, *entry);
        } else {
            notes.add(format_text("{}: no GID or route tells its interface", address.text()));
        }
    }
    for (const auto& entry : parse_if_inet6(read_table(root, "/proc/net/if_inet6", notes))) {
        add_address(netdevs, entry);
    }
}

std::vector<std::string> read_default_route_netdevs(const SysRoot& root, Notes& notes) {
    auto netdevs = default_netdevs(parse_ipv4_routes(read_table(root, "/proc/net/route", notes)));
    if (netdevs.empty()) {
        netdevs = default_netdevs(parse_ipv6_routes(read_table(root, "/proc/net/ipv6_route", notes)));
    }
    return netdevs;
}

} // namespace rdma_nccl
