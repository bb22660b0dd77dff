// SPDX-License-Identifier: Apache-2.0
#include "lib/netdev.h"

#include "lib/fabric_parse.h"
#include "lib/fabric_pci.h"
#include "lib/format.h"
#include "lib/text.h"

#include <algorithm>
#include <cerrno>

namespace rdma_nccl {

namespace {

constexpr std::string_view class_directory = "/sys/class/net";
constexpr std::size_t most_netdevs = 4096;
constexpr std::size_t short_file = 64;

// <linux/if.h> and <linux/if_arp.h>
constexpr unsigned long flag_up = 0x1;
constexpr unsigned long flag_loopback = 0x8;

/// flags: "0x1003"
std::optional<unsigned long> parse_flags(std::string_view text) {
    return text.starts_with("0x") ? parse_number<unsigned long>(text.substr(2), 16) : std::nullopt;
}

/// carrier is EINVAL while the interface is down, and operstate "unknown" for drivers that do not keep it (loopback).
bool has_carrier(const Directory& directory) {
    if (const auto carrier = directory.read("carrier", short_file)) {
        return *carrier == "1";
    }
    const auto state = directory.read("operstate", short_file).value_or("");
    return state == "up" || state == "unknown";
}

void read_flags(const Directory& directory, Netdev& netdev, Notes& notes) {
    const auto text = directory.read("flags", short_file);
    const auto flags = text ? parse_flags(*text) : std::nullopt;
    if (!flags) {
        notes.add(text ? format_text("{}: flags '{}' are no number", netdev.name, printable(*text, 40))
                       : format_text("{}: {}", netdev.name, text.error().message));
    }
    netdev.up = (flags.value_or(flag_up) & flag_up) != 0 && has_carrier(directory);
    netdev.loopback = flags ? (*flags & flag_loopback) != 0 : netdev.name == "lo";
}

/// speed: Mb/s, -1 or EINVAL when unknown.
double read_speed_gbps(const Directory& directory) {
    const auto speed = parse_number<long>(directory.read("speed", short_file).value_or("")).value_or(0);
    constexpr long unknown = 0xffffffff; // SPEED_UNKNOWN as older kernels print it
    return speed > 0 && speed < unknown ? static_cast<double>(speed) / 1000 : 0;
}

void read_links(const Root& root, const std::string& path, const Directory& directory, Netdev& netdev) {
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
            const auto upper = root.resolve(path + "/master").value_or("");
            netdev.upper = is_netdev_name(base_name(upper)) ? base_name(upper) : "";
        } else if (entry.starts_with(lower_link) && is_netdev_name(entry.substr(lower_link.size()))) {
            netdev.lowers.push_back(entry.substr(lower_link.size()));
        }
    }
}

Netdev read_netdev(const Root& root, const std::string& name, const Directory& directory, bool answers, Notes& notes) {
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

const Netdev* find(const std::vector<Netdev>& netdevs, std::string_view name) {
    const auto found =
        std::find_if(netdevs.begin(), netdevs.end(), [name](const Netdev& netdev) { return netdev.name == name; });
    return found == netdevs.end() ? nullptr : &*found;
}

/// `depth`: a broken tree may have interfaces that are below each other.
bool stands_on_hardware(const std::vector<Netdev>& netdevs, const Netdev& netdev, unsigned depth) {
    return netdev.port || (depth > 0 && std::any_of(netdev.lowers.begin(), netdev.lowers.end(), [&](const auto& lower) {
                               const auto* const below = find(netdevs, lower);
                               return below != nullptr && stands_on_hardware(netdevs, *below, depth - 1);
                           }));
}

} // namespace

bool is_host_bridge(const std::vector<Netdev>& netdevs, std::string_view name) {
    constexpr unsigned most_levels = 4; // bridge, VLAN, bond, interface
    const auto* const netdev = find(netdevs, name);
    return netdev != nullptr && netdev->bridge && !stands_on_hardware(netdevs, *netdev, most_levels);
}

std::vector<Netdev> read_netdevs(const Root& root, const SilentNetdevs& silent, Notes& notes) {
    const auto names = root.list(class_directory);
    if (!names) {
        notes.add(names.error().message);
        return {};
    }
    std::vector<Netdev> netdevs;
    for (const auto& name : *names) {
        if (!is_netdev_name(name) || netdevs.size() >= most_netdevs) {
            notes.add(format_text("{}/{}: {}", class_directory, printable(name, 40),
                                  is_netdev_name(name) ? "beyond what is looked at" : "no interface name"));
            continue;
        }
        const auto directory = root.directory(format_text("{}/{}", class_directory, name));
        if (directory) {
            netdevs.push_back(read_netdev(root, name, *directory, !silent.contains(name), notes));
        } else if (directory.error().os_error != ENOTDIR) { // ENOTDIR: bonding_masters is a file among the interfaces
            notes.add(directory.error().message);
        }
    }
    std::sort(netdevs.begin(), netdevs.end(),
              [](const Netdev& a, const Netdev& b) { return natural_name_less(a.name, b.name); });
    return netdevs;
}

} // namespace rdma_nccl
