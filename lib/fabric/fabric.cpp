// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/fabric.h"

#include "lib/base/format.h"
#include "lib/fabric/readers.h"

#include <algorithm>
#include <set>
#include <span>

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

bool is_hex(std::string_view text, std::size_t shortest, std::size_t longest) {
    return text.size() >= shortest && text.size() <= longest &&
           text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

/// True for "pci0000:50".
bool is_pci_host_bridge(std::string_view text) {
    if (!text.starts_with("pci")) {
        return false;
    }
    const auto [domain, bus] = split_once(text.substr(3), ':');
    return bus && is_hex(domain, 4, 8) && is_hex(*bus, 2, 2);
}

} // namespace

std::string Port::problem_with(std::string_view file) const {
    const auto found = std::ranges::find_if(
        problems, [file](const std::string& problem) { return problem.starts_with(file) || problem.starts_with('/'); });
    return found == problems.end() ? "" : *found;
}

std::size_t Fabric::count_gpus() const {
    return static_cast<std::size_t>(std::ranges::count(gpus, false, &Gpu::hidden));
}

std::vector<Gpu> Fabric::cards() const {
    std::set<std::string_view> seen;
    return selected(gpus, [&seen](const Gpu& gpu) { return seen.insert(gpu.pci).second; });
}

const Hca* Fabric::find_hca(std::string_view name) const {
    return find_by(hcas, &Hca::name, name);
}

const Netdev* Fabric::find_netdev(std::string_view name) const {
    return find_by(netdevs, &Netdev::name, name);
}

const std::string* Fabric::hca_problem() const {
    const auto found = std::ranges::find_if(
        problems, [](const std::string& problem) { return problem.starts_with("/sys/class/infiniband"); });
    return found == problems.end() ? nullptr : &*found;
}

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

// Places in the PCI tree.

PciAncestors pci_ancestors(std::string_view path) {
    auto parts = split(path, '/');
    parts.erase(parts.begin(), std::ranges::find_if(parts, is_pci_host_bridge));
    if (!parts.empty()) {
        parts.pop_back();
    }
    return parts;
}

bool is_pci_address(std::string_view text) {
    const auto parts = split(text, ':');
    if (parts.size() != 3) {
        return false;
    }
    const auto [device, function] = split_once(parts[2], '.');
    return function && is_hex(parts[0], 4, 8) && is_hex(parts[1], 2, 2) && is_hex(device, 2, 2) &&
           is_hex(*function, 1, 1);
}

std::string pci_function_path(std::string_view sysfs_path) {
    while (!sysfs_path.empty() && !is_pci_address(base_name(sysfs_path))) {
        const auto slash = sysfs_path.rfind('/');
        sysfs_path = sysfs_path.substr(0, slash == std::string_view::npos ? 0 : slash);
    }
    return std::string(sysfs_path);
}

std::optional<int> read_numa_node(const Directory& function) {
    const auto number = parse_number<int>(function.read("numa_node", 64).value_or(""));
    return number && *number >= 0 ? number : std::nullopt;
}

CpuSet read_local_cpus(const Directory& function) {
    return CpuSet::parse_list(function.read("local_cpulist").value_or("")).value_or(CpuSet());
}

std::size_t common_pci_ancestors(const PciAncestors& a, const PciAncestors& b) {
    const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<std::size_t>(differ.first - a.begin());
}

std::optional<unsigned> switches_between(const PciAncestors& a, const PciAncestors& b) {
    const std::size_t common = common_pci_ancestors(a, b);
    if (common < 2) {
        return std::nullopt;
    }
    const std::size_t below_a = a.size() - common;
    const std::size_t below_b = b.size() - common;
    if (below_a == 0 && below_b == 0) {
        return 0;
    }
    // The first switch is the one in which they meet: its upstream port is common, and its downstream ports are the
    // first parts below. Each further switch adds two ports.
    const auto further = [](std::size_t below) { return below == 0 ? 0 : (below - 1) / 2; };
    return static_cast<unsigned>(1 + further(below_a) + further(below_b));
}

std::string root_port_of(std::string_view path) {
    const auto above = pci_ancestors(path);
    const auto upper = std::span(above).first(std::min<std::size_t>(above.size(), 2));
    return upper.empty() ? "" : "/" + joined(upper, "/");
}

bool share_pcie_switch(std::string_view path_a, std::string_view path_b) {
    return common_pci_ancestors(pci_ancestors(path_a), pci_ancestors(path_b)) >= 2;
}

} // namespace rdma_nccl
