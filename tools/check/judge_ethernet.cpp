// SPDX-License-Identifier: Apache-2.0
// Judges what RoCE needs of its interfaces: MTU, ECN, traffic class, and IP settings if several share a network.
#include "lib/base/format.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <map>

namespace rdma_nccl::check {

namespace {

using PortsByNetdev = std::map<std::string, JudgedPort>;

/// Returns the used RoCE ports that have an interface, one for each interface.
PortsByNetdev roce_ports(const Facts& facts) {
    PortsByNetdev ports;
    for (const auto& port : used_ports_of(facts)) {
        if (port.is_roce() && port.netdev != nullptr) {
            ports.emplace(port.netdev->name, port);
        }
    }
    return ports;
}

/// Returns the RDMA MTU: the largest of 256 ... 4096 that fits with the headers (iboe_get_mtu, rdma/ib_addr.h).
unsigned rdma_mtu(unsigned mtu) {
    constexpr unsigned headers = 40 + 8 + 12 + 4 + 28 + 4; // GRH, UDP, BTH, XRC, AtomicETH, ICRC, as in iboe_get_mtu
    unsigned fit = 0;
    for (unsigned size = 256; size <= 4096; size *= 2) {
        fit = mtu >= size + headers ? size : fit;
    }
    return fit;
}

Finding judge_mtu(const Netdev& netdev, unsigned most, const Expectations& expected) {
    Finding result{.id = "mtu",
                   .item = netdev.name,
                   .message = format_text("{}, so {} for RDMA", netdev.mtu, rdma_mtu(netdev.mtu)),
                   .value = format_text("{}", netdev.mtu),
                   .unit = "bytes",
                   .evidence = format_text("/sys/class/net/{}/mtu", netdev.name)};
    if (netdev.mtu == 0) {
        return result.error("cannot be read", "see why the file cannot be read");
    }
    constexpr unsigned full_size = 4096;
    const auto hint = [&netdev](unsigned mtu) {
        return format_text("ip link set {} mtu {}, after all switches and peers have at least that; and where the "
                           "system configures it",
                           netdev.name, mtu);
    };
    if (expected.mtu) {
        result.expected = format_text("{}", *expected.mtu);
        if (netdev.mtu < *expected.mtu) {
            result.fail(result.message + format_text("; {} expected", *expected.mtu), hint(*expected.mtu));
        }
    } else if (netdev.mtu < most) {
        result.warn(result.message + format_text("; other used interfaces have {}", most), hint(most));
    } else if (rdma_mtu(netdev.mtu) < full_size) {
        result.warn(result.message + format_text("; {} needs 4200 or more", full_size), hint(9000));
    }
    return result;
}

Finding judge_traffic_class(const JudgedPort& port, std::optional<unsigned> found, unsigned expected) {
    Finding result{.id = "roce.traffic_class",
                   .item = port.name(),
                   .expected = format_text("{}", expected),
                   .evidence = format_text("/sys/class/infiniband/{}/tc", port.hca.name)};
    if (!found) {
        return result.skip("is not shown by this driver; NCCL_IB_TC sets it");
    }
    result.value = format_text("{}", *found);
    return *found == expected ? result.pass(format_text("is {}", *found))
                              : result.warn(format_text("is {}, {} expected", *found, expected),
                                            format_text("echo {0} > {1}/1/traffic_class, or NCCL_IB_TC={0}", expected,
                                                        result.evidence));
}

/// Returns the used interfaces that share an IPv4 network with another used one.
std::set<std::string> sharing_a_network(const PortsByNetdev& ports) {
    std::map<std::string, std::set<std::string>> networks;
    for (const auto& [name, port] : ports) {
        for (const auto& address : port.netdev->addresses) {
            if (address.address.is_ipv4() && !address.address.is_link_local()) {
                if (const auto network = IpPrefix::of(address.address, address.prefix_length)) {
                    networks[network->text()].insert(name);
                }
            }
        }
    }
    std::set<std::string> names;
    for (const auto& [network, members] : networks) {
        if (members.size() > 1) {
            names.insert(members.begin(), members.end());
        }
    }
    return names;
}

/// By default, a host with several interfaces in one network answers for any of its addresses on any of them. Peers
/// then send to the wrong port (kernel Documentation/networking/ip-sysctl.rst, arp_ignore, arp_announce).
Finding judge_arp(const std::string& name, const NetdevSysctls& sysctls) {
    Finding result{.id = "arp", .item = name, .evidence = format_text("/proc/sys/net/ipv4/conf/{}/arp_ignore", name)};
    if (!sysctls.arp_ignore || !sysctls.arp_announce) {
        return result.skip("its settings cannot be seen here");
    }
    result.value = format_text("{}, {}", *sysctls.arp_ignore, *sysctls.arp_announce);
    result.expected = "arp_ignore 1, arp_announce 2";
    return *sysctls.arp_ignore > 0 && *sysctls.arp_announce >= 2
               ? result.pass("answers for its own addresses only")
               : result.warn("shares its network with another used interface, and may answer for that one's address",
                             "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2, for each boot "
                             "in /etc/sysctl.d; or give each rail a network of its own");
}

/// Strict mode (1) drops a packet if the answer would go out of another interface. With two interfaces in one network,
/// that is every second packet.
Finding judge_rp_filter(const std::string& name, const NetdevSysctls& sysctls) {
    Finding result{
        .id = "rp_filter", .item = name, .evidence = format_text("/proc/sys/net/ipv4/conf/{}/rp_filter", name)};
    if (!sysctls.rp_filter) {
        return result.skip("its setting cannot be seen here");
    }
    result.value = format_text("{}", *sysctls.rp_filter);
    if (*sysctls.rp_filter != 1) {
        return result.pass("is not strict");
    }
    result.expected = "2 or 0";
    return result.warn("is strict, and the interface shares its network with another used one: packets are dropped",
                       format_text("sysctl -w net.ipv4.conf.{}.rp_filter=2 (2 wins over 1 in `all`), for each boot in "
                                   "/etc/sysctl.d",
                                   name));
}

} // namespace

void judge_ethernet(const Facts& facts, const Expectations& expected, Findings& results) {
    const auto ports = roce_ports(facts);
    unsigned most = 0; // MTU
    for (const auto& [name, port] : ports) {
        most = std::max(most, port.netdev->mtu);
    }
    for (const auto& [name, port] : ports) {
        results.push_back(judge_mtu(*port.netdev, most, expected));
    }
    for (const auto& [name, port] : ports) {
        const auto quality = value_in(facts.quality, port.name());
        if (quality.ecn) { // reported, but not judged: whether it is needed depends on the network
            results.push_back({.id = "roce.ecn",
                               .item = name,
                               .message = *quality.ecn ? "is on" : "is off for some or all priorities",
                               .value = *quality.ecn ? "on" : "off",
                               .evidence = format_text("/sys/class/net/{}/ecn", name)});
        }
        if (expected.traffic_class) {
            results.push_back(judge_traffic_class(port, quality.traffic_class, *expected.traffic_class));
        }
    }
    for (const auto& name : sharing_a_network(ports)) {
        const auto sysctls = value_in(facts.sysctls, name);
        results.push_back(judge_rp_filter(name, sysctls));
        results.push_back(judge_arp(name, sysctls));
    }
}

} // namespace rdma_nccl::check
