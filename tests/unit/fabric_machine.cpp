// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fabric_machine.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/fabric/kernel_text.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace rdma_nccl::test {

namespace {

std::string hca_directory(const std::string& name) {
    return "/sys/class/infiniband/" + name;
}

/// The four bytes of an IPv4 address as /proc/net/route prints them.
std::string route_word(const IpAddress& address) {
    std::array<std::uint8_t, 4> bytes{};
    std::copy(address.bytes().begin() + 12, address.bytes().end(), bytes.begin());
    return format_text("{:08X}", std::bit_cast<std::uint32_t>(bytes));
}

std::string ipv4_mask(unsigned length) {
    std::array<std::uint8_t, 4> bytes{};
    for (unsigned bit = 0; bit < length; ++bit) {
        bytes.at(bit / 8) |= static_cast<std::uint8_t>(0x80U >> (bit % 8));
    }
    return route_word(IpAddress::from_ipv4(bytes));
}

std::string hex(const IpAddress& address) {
    std::string text;
    for (const auto byte : address.bytes()) {
        text += format_text("{:02x}", byte);
    }
    return text;
}

} // namespace

Machine::Machine() {
    netdev({.name = "lo", .flags = "0x9", .operstate = "unknown", .speed = "-1"});
    tree_.file("/sys/class/net/bonding_masters", "\n");
}

Machine& Machine::hca(const HcaSpec& spec) {
    const std::string directory = hca_directory(spec.name);
    tree_.file(directory + "/node_type", spec.node_type + "\n");
    tree_.file(directory + "/node_guid", "0c42:a103:002b:3c4d\n");
    tree_.file(directory + "/sys_image_guid", "0c42:a103:002b:3c4d\n");
    if (spec.pci_path.empty()) {
        return *this;
    }
    const std::string device = "/sys/devices/" + spec.pci_path;
    tree_.link(directory + "/device", "../../../devices/" + spec.pci_path);
    tree_.file(device + "/numa_node", spec.numa_node + "\n");
    tree_.directory("/sys/bus/pci/drivers/" + spec.driver);
    tree_.link(device + "/driver", "/sys/bus/pci/drivers/" + spec.driver);
    if (!spec.physical_function.empty()) {
        tree_.directory("/sys/devices/" + spec.physical_function);
        tree_.link(device + "/physfn", "/sys/devices/" + spec.physical_function);
    }
    for (const auto& netdev : spec.netdevs) {
        tree_.directory(format_text("{}/net/{}", device, netdev));
    }
    return *this;
}

Machine& Machine::port(const PortSpec& spec) {
    const std::string directory = format_text("{}/ports/{}", hca_directory(spec.hca), spec.number);
    tree_.file(directory + "/state", spec.state + "\n");
    tree_.file(directory + "/phys_state", spec.physical_state + "\n");
    tree_.file(directory + "/link_layer", spec.link_layer + "\n");
    tree_.file(directory + "/rate", spec.rate + "\n");
    tree_.directory(directory + "/gid_attrs/types");
    tree_.directory(directory + "/gid_attrs/ndevs");
    tree_.directory(directory + "/gids");
    for (unsigned slot = 0; slot < spec.slots; ++slot) {
        tree_.file(format_text("{}/gids/{}", directory, slot), gid_text(IpAddress()) + "\n");
    }
    return *this;
}

Machine& Machine::gid(const std::string& hca, unsigned index, const std::string& value, const std::string& type,
                      const std::string& netdev, unsigned port) {
    const std::string directory = format_text("{}/ports/{}", hca_directory(hca), port);
    const auto address = IpAddress::parse(value);
    tree_.file(format_text("{}/gids/{}", directory, index), (address ? gid_text(*address) : value) + "\n");
    if (!type.empty()) {
        tree_.file(format_text("{}/gid_attrs/types/{}", directory, index), type + "\n");
    }
    if (!netdev.empty()) {
        tree_.file(format_text("{}/gid_attrs/ndevs/{}", directory, index), netdev + "\n");
    }
    return *this;
}

Machine& Machine::netdev(const NetdevSpec& spec) {
    const std::string directory = "/sys/class/net/" + spec.name;
    tree_.file(directory + "/flags", spec.flags + "\n");
    tree_.file(directory + "/carrier", spec.carrier + "\n");
    tree_.file(directory + "/operstate", spec.operstate + "\n");
    tree_.file(directory + "/speed", spec.speed + "\n");
    tree_.file(directory + "/mtu", "9000\n");
    if (!spec.pci_path.empty()) {
        tree_.directory("/sys/devices/" + spec.pci_path);
        tree_.link(directory + "/device", "../../../devices/" + spec.pci_path);
    }
    if (!spec.upper.empty()) {
        tree_.directory("/sys/class/net/" + spec.upper);
        tree_.link(directory + "/master", "../" + spec.upper);
    }
    for (const auto& lower : spec.lowers) {
        tree_.link(format_text("{}/lower_{}", directory, lower), "../" + lower);
    }
    if (spec.bridge) {
        tree_.file(directory + "/bridge/bridge_id", "8000.0242ac110001\n");
    }
    return *this;
}

Machine& Machine::address(const std::string& netdev, const std::string& cidr, bool subnet_route) {
    const auto [text, length_text] = split_once(cidr, '/');
    const auto address = IpAddress::parse(text).value();
    const auto length = parse_number<unsigned>(length_text.value()).value();
    if (!address.is_ipv4()) {
        if_inet6_ += format_text("{} 02 {:02x} 00 80 {}\n", hex(address), length, netdev);
        return *this;
    }
    fib_trie_ += format_text("     |-- {}\n        /32 host LOCAL\n", address.text());
    if (subnet_route) {
        routes_ += format_text("{}\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n", netdev,
                               route_word(IpPrefix::of(address, length)->address()), ipv4_mask(length));
    }
    return *this;
}

Machine& Machine::gateway_route(const std::string& netdev, const std::string& cidr) {
    const auto network = IpPrefix::parse(cidr).value();
    routes_ += format_text("{}\t{}\t010200C0\t0003\t0\t0\t0\t{}\t0\t0\t0\n", netdev, route_word(network.address()),
                           ipv4_mask(network.length()));
    return *this;
}

Machine& Machine::default_route(const std::string& netdev, unsigned metric) {
    routes_ += format_text("{}\t00000000\t010200C0\t0003\t0\t0\t{}\t00000000\t0\t0\t0\n", netdev, metric);
    return *this;
}

Machine& Machine::ipv6_default_route(const std::string& netdev) {
    const std::string any(32, '0');
    ipv6_routes_ += format_text(
        "{0} 00 {0} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003 {1}\n", any, netdev);
    return *this;
}

Machine& Machine::gpu(const std::string& pci_path, const std::string& vendor, const std::string& pci_class) {
    const std::string device = "/sys/devices/" + pci_path;
    tree_.file(device + "/class", pci_class + "\n");
    tree_.file(device + "/vendor", vendor + "\n");
    tree_.file(device + "/numa_node", "0\n");
    tree_.link(format_text("/sys/bus/pci/devices/{}", base_name(pci_path)), "../../../devices/" + pci_path);
    return *this;
}

Machine& Machine::connectx(const std::string& hca_name, const std::string& netdev_name, const std::string& ipv4,
                           const std::string& pci_path, const std::string& rate) {
    hca({.name = hca_name, .pci_path = pci_path, .netdevs = {netdev_name}});
    port({.hca = hca_name, .rate = rate});
    netdev({.name = netdev_name, .pci_path = pci_path, .speed = "-1"});
    const std::string link_local = "fe80::e42:a1ff:fe2b:3c4d";
    gid(hca_name, 0, link_local, "IB/RoCE v1", netdev_name);
    gid(hca_name, 1, link_local, "RoCE v2", netdev_name);
    if (!ipv4.empty()) {
        gid(hca_name, 2, ipv4, "IB/RoCE v1", netdev_name);
        gid(hca_name, 3, ipv4, "RoCE v2", netdev_name);
        address(netdev_name, ipv4 + "/24");
    }
    return *this;
}

Fabric Machine::read() {
    tree_.file("/proc/net/route", routes_);
    tree_.file("/proc/net/fib_trie", fib_trie_);
    tree_.file("/proc/net/if_inet6", if_inet6_);
    tree_.file("/proc/net/ipv6_route", ipv6_routes_);
    return read_fabric(tree_.root());
}

std::string below_root_port(const std::string& bridge, const std::string& bus) {
    return format_text("pci0000:{0}/0000:{0}:01.0/0000:{1}:00.0", bridge, bus);
}

} // namespace rdma_nccl::test
