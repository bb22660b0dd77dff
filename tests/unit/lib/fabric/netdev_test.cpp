// SPDX-License-Identifier: Apache-2.0
// Addresses and routes from /proc/net, and nvidia's information file.
#include "lib/fabric/kernel_text.h"

#include "lib/fabric/readers.h"
#include "tests/unit/fabric_machine.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {
namespace {

using test::below_root_port;
using test::Machine;

IpAddress ip(const std::string& text) {
    return IpAddress::parse(text).value();
}

TEST(Ipv4Routes, GatewaysMetricsAndMasks) {
    const auto routes =
        parse_ipv4_routes("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
                          "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
                          "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                          "*\t000200C0\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                          "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FF00FF\t0\t0\t0\n"
                          "eth0\t000200C0\n");
    ASSERT_EQ(routes.size(), 2U); // the reject route, the mask with a hole and the torn line are not given back
    EXPECT_EQ(routes[0].destination.length(), 0U);
    EXPECT_FALSE(routes[0].direct);
    EXPECT_EQ(routes[0].metric, 100U);
    EXPECT_EQ(routes[1].destination.text(), "192.0.2.0/24");
    EXPECT_TRUE(routes[1].direct);
    EXPECT_EQ(routes[1].netdev, "eth0");
}

TEST(Ipv6Routes, UnreachableOnesAreLeftOut) {
    const std::string none(32, '0');
    const std::string net = "fd0000000000000000000000000000";
    const auto routes =
        parse_ipv6_routes(net + "00 40 " + none + " 00 " + none + " 00000100 00000001 00000000 00000001     eth0\n" +
                          none + " 00 " + none + " 00 " + net + "01 00000400 00000002 00000000 00000003     eth1\n" +
                          none + " 00 " + none + " 00 " + none + " ffffffff 00000001 00000000 00200200       lo\n");
    ASSERT_EQ(routes.size(), 2U);
    EXPECT_EQ(routes[0].destination.text(), "fd00::/64");
    EXPECT_EQ(routes[1].netdev, "eth1");
    EXPECT_EQ(routes[1].metric, 0x400U);
    EXPECT_EQ(routes[1].destination.length(), 0U);
}

TEST(FibTrie, LocalAddressesOnce) {
    const std::string table = "  +-- 0.0.0.0/0 3 0 5\n     |-- 192.0.2.0\n        /24 link UNICAST\n"
                              "     |-- 192.0.2.2\n        /32 host LOCAL\n"
                              "     |-- 192.0.2.255\n        /32 link BROADCAST\n"
                              "     |-- 127.0.0.1\n        /8 host LOCAL\n        /32 host LOCAL\n"
                              "     |-- nonsense\n        /32 host LOCAL\n";
    const auto addresses = parse_fib_trie("Main:\n" + table + "Local:\n" + table);
    EXPECT_EQ(addresses, (std::vector<IpAddress>{ip("192.0.2.2"), ip("127.0.0.1")}));
}

TEST(IfInet6, TentativeAddressesAreLeftOut) {
    const auto addresses = parse_if_inet6("fd000000000000000000000000000002 04 40 00 82     eth0\n"
                                          "fd000000000000000000000000000003 04 40 00 c0     eth0\n"
                                          "fd000000000000000000000000000004 04 40 00 88     eth0\n"
                                          "fd0000000000000000000000000000zz 04 40 00 80     eth0\n"
                                          "00000000000000000000000000000001 01 80 10 80       lo\n");
    ASSERT_EQ(addresses.size(), 2U);
    EXPECT_EQ(addresses[0].address, ip("fd00::2"));
    EXPECT_EQ(addresses[0].prefix_length, 64U);
    EXPECT_EQ(addresses[1].netdev, "lo");
    EXPECT_EQ(addresses[1].prefix_length, 128U);
}

TEST(CopiedTree, AddressesFindTheirInterfaceByRoute) {
    Machine machine;
    machine.netdev({.name = "eth0"}).netdev({.name = "eth1"});
    machine.address("eth0", "10.0.0.5/16").address("eth1", "10.0.7.5/24").address("eth1", "fd00::5/64");
    machine.address("lo", "127.0.0.1/8", false);
    const Fabric fabric = machine.read();
    const auto& eth0 = fabric.find_netdev("eth0")->addresses;
    ASSERT_EQ(eth0.size(), 1U);
    EXPECT_EQ(eth0[0].address, ip("10.0.0.5"));
    EXPECT_EQ(eth0[0].prefix_length, 16U);
    const auto& eth1 = fabric.find_netdev("eth1")->addresses;
    ASSERT_EQ(eth1.size(), 2U);
    EXPECT_EQ(eth1[0].address, ip("10.0.7.5")); // the more specific route wins
    EXPECT_EQ(eth1[1].address, ip("fd00::5"));
    ASSERT_EQ(fabric.find_netdev("lo")->addresses.size(), 1U);
    EXPECT_EQ(fabric.find_netdev("lo")->addresses[0].prefix_length, 8U);
}

TEST(CopiedTree, NeitherAWiderRouteNorOneThroughAGatewayCounts) {
    Machine machine;
    machine.netdev({.name = "eth0"}).netdev({.name = "eth1"});
    machine.address("eth1", "10.0.7.5/24").address("eth0", "10.0.0.5/16").gateway_route("eth0", "10.0.7.4/30");
    const Fabric fabric = machine.read();
    ASSERT_EQ(fabric.find_netdev("eth1")->addresses.size(), 1U);
    EXPECT_EQ(fabric.find_netdev("eth1")->addresses[0].address, ip("10.0.7.5"));
    EXPECT_EQ(fabric.find_netdev("eth0")->addresses.size(), 1U);
}

TEST(CopiedTree, OneSubnetOnTwoInterfacesIsSettledByTheGids) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "", below_root_port("50", "53"));
    machine.connectx("mlx5_1", "eth1", "", below_root_port("50", "56"));
    machine.gid("mlx5_0", 3, "10.0.0.5", "RoCE v2", "eth0").gid("mlx5_1", 3, "10.0.0.6", "RoCE v2", "eth1");
    machine.netdev({.name = "eth2"}).netdev({.name = "eth3"});
    machine.address("eth0", "10.0.0.5/24").address("eth1", "10.0.0.6/24").address("eth2", "10.0.0.7/24");
    const Fabric fabric = machine.read();
    ASSERT_EQ(fabric.find_netdev("eth0")->addresses.size(), 1U);
    EXPECT_EQ(fabric.find_netdev("eth0")->addresses[0].address, ip("10.0.0.5"));
    EXPECT_EQ(fabric.find_netdev("eth0")->addresses[0].prefix_length, 24U);
    ASSERT_EQ(fabric.find_netdev("eth1")->addresses.size(), 1U);
    EXPECT_EQ(fabric.find_netdev("eth1")->addresses[0].address, ip("10.0.0.6"));
    EXPECT_TRUE(fabric.find_netdev("eth2")->addresses.empty()); // no GID tells
    ASSERT_EQ(fabric.problems.size(), 1U);
    EXPECT_EQ(fabric.problems[0], "10.0.0.7: no GID or route tells its interface");
}

TEST(DefaultRoutes, LowestMetricOfEachFamily) {
    Machine machine;
    machine.netdev({.name = "eth0"}).netdev({.name = "eth1"}).netdev({.name = "eth2"});
    machine.default_route("eth0", 200).default_route("eth1", 100).default_route("eth2", 100).default_route("lo", 0);
    EXPECT_EQ(machine.read().default_route_netdevs, (std::vector<std::string>{"eth1", "eth2"}));
}

TEST(DefaultRoutes, OfIpv6OnlyWhereThereIsNoneOfIpv4) {
    Machine machine;
    machine.netdev({.name = "eth0"}).netdev({.name = "rail0"}).ipv6_default_route("rail0");
    EXPECT_EQ(machine.read().default_route_netdevs, std::vector<std::string>{"rail0"});
    machine.default_route("eth0");
    EXPECT_EQ(machine.read().default_route_netdevs, std::vector<std::string>{"eth0"});
}

TEST(SavedAddresses, AreTakenInsteadOfGuesses) {
    Machine machine;
    machine.netdev({.name = "eth0"}).netdev({.name = "eth1"}).address("eth0", "10.0.0.1/24");
    machine.tree().file("/ip-addresses", "eth1 10.0.0.1/32\neth1 fd00::1/64\njunk\neth0 10.0.0/8\n");
    const Fabric fabric = machine.read();
    EXPECT_TRUE(fabric.find_netdev("eth0")->addresses.empty());
    ASSERT_EQ(fabric.find_netdev("eth1")->addresses.size(), 2U);
    EXPECT_EQ(fabric.find_netdev("eth1")->addresses[0].prefix_length, 32U);
    EXPECT_EQ(fabric.find_netdev("eth1")->addresses[1].address.text(), "fd00::1");
}

TEST(DefaultRoutes, TooLongATableIsCutAndSaidSo) {
    Machine machine;
    machine.netdev({.name = "eth0"}).default_route("eth0");
    for (unsigned i = 0; i < 8000; ++i) {
        machine.gateway_route("eth0", "10." + std::to_string(i / 200) + "." + std::to_string(i % 200) + ".0/24");
    }
    const Fabric fabric = machine.read();
    EXPECT_EQ(fabric.default_route_netdevs, std::vector<std::string>{"eth0"});
    ASSERT_FALSE(fabric.problems.empty());
    EXPECT_NE(fabric.problems[0].find("the rest is not looked at"), std::string::npos);
}

TEST(NvidiaInformation, IsReadLineByLine) {
    const auto information = parse_nvidia_information("GPU UUID: \t GPU-1-2\nDevice Minor: \t 7\nBus Type:\tPCIe\n");
    EXPECT_EQ(information.uuid, "GPU-1-2");
    EXPECT_EQ(information.minor, 7U);
    EXPECT_EQ(parse_nvidia_information("GPU UUID: \t GPU-\?\?\?\?-\?\?\n").uuid, "") << "not known to the driver";
    const auto strange = parse_nvidia_information("GPU UUID: ??\nDevice Minor: -1\n\xff:\n");
    EXPECT_EQ(strange.uuid, "");
    EXPECT_FALSE(strange.minor);
}

/// /sys is the machine's, as a container has it that mounts the node's.
TEST(Netdevs, AreThoseOfThisNetworkNamespace) {
    const pid_t child = ::fork();
    if (child == 0) {
        constexpr int left_out = 77;
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
            ::_exit(left_out);
        }
        Notes notes;
        const auto netdevs = read_netdevs(*SysRoot::open("/"), {}, notes);
        std::set<std::string> own;
        for (const auto* each = ::if_nameindex(); each != nullptr && each->if_index != 0; ++each) {
            own.insert(each->if_name);
        }
        const bool good = std::ranges::all_of(netdevs, [&](const Netdev& one) { return own.contains(one.name); });
        ::_exit(good && !netdevs.empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        GTEST_SKIP() << "no user namespaces here";
    }
    EXPECT_EQ(status, 0);
}

} // namespace
} // namespace rdma_nccl
