// SPDX-License-Identifier: Apache-2.0
// Judges what RoCE needs of its interfaces: MTU, ECN, traffic class, and IP settings if several share a network.
#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/check/judge.h"

#include <algorithm>
#include <map>

namespace rdma_nccl {

namespace {

using NetdevsByName = std::map<std::string, std::pair<const Netdev*, std::string>>; ///< with the port that uses it

/// Returns the interfaces of the used RoCE ports.
NetdevsByName roce_netdevs(const CheckFacts& facts) {
    NetdevsByName netdevs;
    for (const auto& port : used_ports_of(facts)) {
        const auto* const netdev = netdev_of(facts, port);
        if (port.is_roce() && netdev != nullptr) {
            netdevs.emplace(netdev->name, std::pair(netdev, port.name()));
        }
    }
    return netdevs;
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

CheckResult judge_mtu(const Netdev& netdev, unsigned most, const Expectations& expected) {
    CheckResult result{.id = "mtu",
                       .item = netdev.name,
                       .message = format_text("{}, so {} for RDMA", netdev.mtu, rdma_mtu(netdev.mtu)),
                       .value = format_text("{}", netdev.mtu),
                       .unit = "bytes",
                       .evidence = format_text("/sys/class/net/{}/mtu", netdev.name)};
    if (netdev.mtu == 0) {
        return result.set(CheckStatus::Error, "cannot be read", "see why the file cannot be read");
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
            result.set(CheckStatus::Fail, result.message + format_text("; {} expected", *expected.mtu),
                       hint(*expected.mtu));
        }
    } else if (netdev.mtu < most) {
        result.set(CheckStatus::Warn, result.message + format_text("; other used interfaces have {}", most),
                   hint(most));
    } else if (rdma_mtu(netdev.mtu) < full_size) {
        result.set(CheckStatus::Warn, result.message + format_text("; {} needs 4200 or more", full_size), hint(9000));
    }
    return result;
}

void add_mtus(const CheckFacts& facts, const Expectations& expected, CheckResults& results) {
    const auto netdevs = roce_netdevs(facts);
    unsigned most = 0;
    for (const auto& [name, entry] : netdevs) {
        most = std::max(most, entry.first->mtu);
    }
    for (const auto& [name, entry] : netdevs) {
        results.push_back(judge_mtu(*entry.first, most, expected));
    }
}

void add_quality(const CheckFacts& facts, const Expectations& expected, CheckResults& results) {
    for (const auto& [name, entry] : roce_netdevs(facts)) {
        static const RoceQuality none;
        const auto found = facts.quality.find(entry.second);
        const auto& quality = found == facts.quality.end() ? none : found->second;
        if (quality.ecn) { // reported, but not judged: whether it is needed depends on the network
            results.push_back({.id = "roce.ecn",
                               .item = name,
                               .message = *quality.ecn ? "is on" : "is off for some or all priorities",
                               .value = *quality.ecn ? "on" : "off",
                               .evidence = format_text("/sys/class/net/{}/ecn", name)});
        }
        if (!expected.traffic_class) {
            continue;
        }
        CheckResult result{
            .id = "roce.traffic_class",
            .item = entry.second,
            .expected = format_text("{}", *expected.traffic_class),
            .evidence = format_text("/sys/class/infiniband/{}/tc", entry.second.substr(0, entry.second.find(':')))};
        if (!quality.traffic_class) {
            result.set(CheckStatus::Skip, "is not shown by this driver; NCCL_IB_TC sets it");
        } else {
            result.value = format_text("{}", *quality.traffic_class);
            result.message = format_text("is {}", result.value);
            if (*quality.traffic_class != *expected.traffic_class) {
                result.set(CheckStatus::Warn, result.message + format_text(", {} expected", result.expected),
                           format_text("echo {} > {}/1/traffic_class, or NCCL_IB_TC={}", result.expected,
                                       result.evidence, result.expected));
            }
        }
        results.push_back(std::move(result));
    }
}

/// Returns the used interfaces that share an IPv4 network with another used one.
std::vector<std::string> sharing_a_network(const CheckFacts& facts) {
    std::map<std::string, std::set<std::string>> networks;
    for (const auto& [name, entry] : roce_netdevs(facts)) {
        for (const auto& address : entry.first->addresses) {
            if (address.address.is_ipv4() && !address.address.is_link_local()) {
                const auto prefix =
                    IpPrefix::parse(format_text("{}/{}", address.address.text(), address.prefix_length));
                networks[prefix ? prefix->text() : ""].insert(name);
            }
        }
    }
    std::set<std::string> names;
    for (const auto& [network, members] : networks) {
        if (members.size() > 1 && !network.empty()) {
            names.insert(members.begin(), members.end());
        }
    }
    return {names.begin(), names.end()};
}

/// By default, a host with several interfaces in one network answers for any of its addresses on any of them. Peers
/// then send to the wrong port (kernel Documentation/networking/ip-sysctl.rst, arp_ignore, arp_announce).
CheckResult judge_arp(const std::string& name, const NetdevSysctls& sysctls) {
    CheckResult result{
        .id = "arp", .item = name, .evidence = format_text("/proc/sys/net/ipv4/conf/{}/arp_ignore", name)};
    if (!sysctls.arp_ignore || !sysctls.arp_announce) {
        return result.set(CheckStatus::Skip, "its settings cannot be seen here");
    }
    result.value = format_text("{}, {}", *sysctls.arp_ignore, *sysctls.arp_announce);
    result.expected = "arp_ignore 1, arp_announce 2";
    result.message = "answers for its own addresses only";
    if (*sysctls.arp_ignore == 0 || *sysctls.arp_announce < 2) {
        result.set(CheckStatus::Warn,
                   "shares its network with another used interface, and may answer for that one's address",
                   "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2, for each boot in "
                   "/etc/sysctl.d; or give each rail a network of its own");
    }
    return result;
}

/// Strict mode (1) drops a packet if the answer would go out of another interface. With two interfaces in one network,
/// that is every second packet.
CheckResult judge_rp_filter(const std::string& name, const NetdevSysctls& sysctls) {
    CheckResult result{
        .id = "rp_filter", .item = name, .evidence = format_text("/proc/sys/net/ipv4/conf/{}/rp_filter", name)};
    if (!sysctls.rp_filter) {
        return result.set(CheckStatus::Skip, "its setting cannot be seen here");
    }
    result.value = format_text("{}", *sysctls.rp_filter);
    result.message = "is not strict";
    if (*sysctls.rp_filter == 1) {
        result.status = CheckStatus::Warn;
        result.expected = "2 or 0";
        result.message = "is strict, and the interface shares its network with another used one: packets are dropped";
        result.hint = format_text("sysctl -w net.ipv4.conf.{}.rp_filter=2 (2 wins over 1 in `all`), for each boot in "
                                  "/etc/sysctl.d",
                                  name);
    }
    return result;
}

} // namespace

CheckResults judge_ethernet(const CheckFacts& facts, const Expectations& expected) {
    CheckResults results;
    add_mtus(facts, expected, results);
    add_quality(facts, expected, results);
    for (const auto& name : sharing_a_network(facts)) {
        static const NetdevSysctls none;
        const auto found = facts.sysctls.find(name);
        const auto& sysctls = found == facts.sysctls.end() ? none : found->second;
        results.push_back(judge_rp_filter(name, sysctls));
        results.push_back(judge_arp(name, sysctls));
    }
    return results;
}

} // namespace rdma_nccl
