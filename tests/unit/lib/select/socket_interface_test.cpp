// SPDX-License-Identifier: Apache-2.0
// The interface for sockets.
#include "lib/select/port_selection.h"

#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl {
namespace {

using test::add_infiniband;
using test::add_roce;
using test::make_netdev;

Netdev with_address(const std::string& name, std::initializer_list<const char*> addresses) {
    Netdev netdev = make_netdev(name);
    for (const auto* address : addresses) {
        netdev.addresses.push_back({IpAddress::parse(address).value(), 24});
    }
    return netdev;
}

/// A management interface with the default route beside one RoCE port on eth1.
Fabric machine() {
    Fabric fabric;
    Netdev loopback = with_address("lo", {"127.0.0.1"});
    loopback.loopback = true;
    fabric.netdevs.push_back(loopback);
    fabric.netdevs.push_back(with_address("docker0", {"172.17.0.1"}));
    fabric.netdevs.push_back(with_address("mgmt0", {"fe80::1", "fd00::5", "192.168.1.5"}));
    add_roce(fabric, "mlx5_0", "eth1", "10.0.0.1");
    fabric.default_route_netdevs = {"mgmt0"};
    return fabric;
}

SocketChoice choose(const Fabric& fabric, const Settings& settings = {}) {
    return choose_socket_interface(fabric, choose_fabric(fabric, settings), settings);
}

Settings with_net(const std::string& interface, const std::string& prefix = "") {
    Settings settings;
    settings.net.interface = interface;
    settings.net.prefix = IpPrefix::parse(prefix);
    return settings;
}

TEST(SocketInterface, TheDefaultRouteFirst) {
    const auto choice = choose(machine());
    EXPECT_EQ(choice.interface, "mgmt0");
    EXPECT_EQ(choice.address, IpAddress::parse("192.168.1.5"));
    EXPECT_EQ(choice.why, "has the default route");
    EXPECT_TRUE(choice.warnings.empty());
}

TEST(SocketInterface, Ipv6WhereItIsWantedOrAllThereIs) {
    Settings settings;
    settings.family = FamilyChoice::Ipv6;
    EXPECT_EQ(choose(machine(), settings).address, IpAddress::parse("fd00::5"));
    Fabric fabric = machine();
    fabric.netdevs[2].addresses.pop_back();
    EXPECT_EQ(choose(fabric).address, IpAddress::parse("fd00::5"));
}

TEST(SocketInterface, ThenTheUsedRocePort) {
    Fabric fabric = machine();
    fabric.default_route_netdevs.clear();
    EXPECT_EQ(choose(fabric).interface, "eth1");
    EXPECT_EQ(choose(fabric).why, "is the interface of mlx5_0");
    Fabric down = machine();
    down.netdevs[2].up = false; // the default route's interface
    EXPECT_EQ(choose(down).interface, "eth1");
}

TEST(SocketInterface, OrTheIpoibInterfaceOfInfiniband) {
    Fabric fabric;
    fabric.netdevs.push_back(with_address("aaa", {"10.8.0.1"}));
    fabric.netdevs.push_back(with_address("ib0", {"10.9.0.1"}));
    add_infiniband(fabric, "mlx5_0").netdevs = {"ib0"};
    EXPECT_EQ(choose(fabric).interface, "ib0");
}

TEST(SocketInterface, ThenAnyThatIsNoContainersOwn) {
    Fabric fabric;
    for (const std::string name : {"docker0", "virbr0", "veth12", "br-77"}) {
        fabric.netdevs.push_back(with_address(name, {"172.17.0.1"}));
    }
    fabric.netdevs.push_back(with_address("eth5", {"169.254.1.1"}));
    fabric.netdevs.push_back(with_address("eth6", {"10.0.0.6"}));
    EXPECT_EQ(choose(fabric).interface, "eth6");
    EXPECT_EQ(choose(fabric).why, "is the first with a routable address");
    fabric.netdevs.pop_back();
    const auto none = choose(fabric);
    EXPECT_EQ(none.interface, "");
    EXPECT_FALSE(none.address);
    EXPECT_EQ(none.warnings.size(), 1U);
}

TEST(SocketInterface, NamedByTheUser) {
    const auto choice = choose(machine(), with_net("eth1"));
    EXPECT_EQ(choice.interface, "eth1");
    EXPECT_EQ(choice.address, IpAddress::parse("10.0.0.1"));
    EXPECT_EQ(choice.why, "net=eth1");
    EXPECT_EQ(choose(machine(), with_net("lo")).address, IpAddress::parse("127.0.0.1")); // the user decides
}

TEST(SocketInterface, NamedButUnusableFallsBackWithAWarning) {
    Fabric fabric = machine();
    fabric.netdevs.push_back(make_netdev("eth7"));
    fabric.netdevs.push_back(with_address("eth8", {"10.8.0.1"}));
    fabric.netdevs.back().up = false;
    for (const auto& [name, warning] :
         {std::pair{"eth99",
                    "net=eth99: no such interface on this node; there are lo, docker0, mgmt0, eth1, eth7, eth8: "
                    "mgmt0 is used instead"},
          std::pair{"eth7", "net=eth7: the interface has no address; give it one: mgmt0 is used instead"},
          std::pair{"eth8", "net=eth8: the interface is down; bring it up: mgmt0 is used instead"}}) {
        const auto choice = choose(fabric, with_net(name));
        EXPECT_EQ(choice.interface, "mgmt0");
        ASSERT_EQ(choice.warnings.size(), 1U);
        EXPECT_EQ(choice.warnings[0], warning);
    }
}

TEST(SocketInterface, NamedByNetwork) {
    const auto choice = choose(machine(), with_net("", "10.0.0.0/8"));
    EXPECT_EQ(choice.interface, "eth1");
    EXPECT_EQ(choice.why, "net=10.0.0.0/8");
    const auto absent = choose(machine(), with_net("", "11.0.0.0/8"));
    EXPECT_EQ(absent.interface, "mgmt0");
    ASSERT_EQ(absent.warnings.size(), 1U);
    EXPECT_EQ(absent.warnings[0],
              "net=11.0.0.0/8: no interface of this node has an address in it: mgmt0 is used instead");
}

} // namespace
} // namespace rdma_nccl
