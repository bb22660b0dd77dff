// SPDX-License-Identifier: Apache-2.0
#include "lib/select/candidates.h"

#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl {
namespace {

using test::add_both;
using test::link_local_gid;
using test::make_gid;
using test::make_netdev;
using test::make_port;

/// A machine with eth0, VLAN eth0.7 on it, bond0 above eth4 and eth5, eth9 that is down, and lo.
Fabric machine() {
    Fabric fabric;
    for (const std::string name : {"eth0", "eth4", "eth5", "eth9", "bond0", "eth0.7", "bond0.7", "lo"}) {
        fabric.netdevs.push_back(make_netdev(name));
    }
    const auto netdev = [&](const std::string& name) -> Netdev& {
        return *std::find_if(fabric.netdevs.begin(), fabric.netdevs.end(),
                             [&](const Netdev& entry) { return entry.name == name; });
    };
    netdev("eth4").upper = "bond0";
    netdev("eth5").upper = "bond0";
    netdev("bond0").lowers = {"eth4", "eth5"};
    netdev("eth0.7").lowers = {"eth0"};
    netdev("bond0.7").lowers = {"bond0"};
    netdev("eth9").up = false;
    netdev("lo").loopback = true;
    return fabric;
}

/// -1: none.
int index_of(const Port& port, const Settings& settings = {}) {
    const auto choice = choose_gid(machine(), port, settings);
    return choice.gid == nullptr ? -1 : static_cast<int>(choice.gid->index);
}

std::string reason(const Port& port, std::size_t position, const Settings& settings = {}) {
    return choose_gid(machine(), port, settings).verdicts.at(position).reason;
}

std::string problem(const Port& port, const Settings& settings = {}) {
    return choose_gid(machine(), port, settings).problem.value_or(Exclusion()).reason;
}

Port with_fe80() {
    Port port = make_port();
    add_both(port, 0, link_local_gid, "eth0");
    return port;
}

TEST(ChooseGid, TheStandardTable) {
    Port port = with_fe80();
    add_both(port, 2, "10.0.0.1", "eth0");
    EXPECT_EQ(index_of(port), 3);
    EXPECT_EQ(reason(port, 0), "RoCE v1");
    EXPECT_EQ(reason(port, 1), "index 3 is preferred: IPv4");
    EXPECT_EQ(reason(port, 3), "RoCE v2, IPv4");
    EXPECT_TRUE(choose_gid(machine(), port, {}).verdicts.at(3).used());
    EXPECT_EQ(problem(port), "");
}

TEST(ChooseGid, BondWithManyEntriesBefore) {
    Port port = make_port();
    add_both(port, 0, link_local_gid, "bond0");
    add_both(port, 2, "2001:db8::1", "bond0");
    add_both(port, 4, "10.7.0.1", "bond0.7");
    add_both(port, 8, "25.11.129.2", "bond0");
    EXPECT_EQ(index_of(port), 9);
    EXPECT_EQ(reason(port, 5), "bond0.7 stands on another interface, index 9 is preferred");
}

TEST(ChooseGid, VlanOnlyWhereTheBaseHasNoAddressOfThatClass) {
    Port port = with_fe80();
    add_both(port, 2, "2001:db8::1", "eth0");
    add_both(port, 4, "10.7.0.1", "eth0.7");
    EXPECT_EQ(index_of(port), 5);
}

TEST(ChooseGid, V2OnlyDrivers) {
    Port port = make_port();
    port.gids = {make_gid(0, link_local_gid, GidType::RoceV2, "eth0"),
                 make_gid(1, "10.0.0.1", GidType::RoceV2, "eth0")};
    EXPECT_EQ(index_of(port), 1);
}

TEST(ChooseGid, V1OnlyUnlessAsked) {
    Port port = make_port();
    port.gids = {make_gid(0, link_local_gid, GidType::RoceV1, "eth0"),
                 make_gid(1, "10.0.0.1", GidType::RoceV1, "eth0")};
    EXPECT_EQ(index_of(port), -1);
    EXPECT_EQ(problem(port), "has no RoCE v2 address (only RoCE v1): left out; enable RoCE v2 on it, or set roce=1");
    Settings settings;
    settings.roce = RoceVersion::V1;
    EXPECT_EQ(index_of(port, settings), 1);
}

TEST(ChooseGid, Ipv6Only) {
    Port port = with_fe80();
    add_both(port, 2, "fd00::1", "eth0");
    EXPECT_EQ(index_of(port), 3);
    Settings settings;
    settings.family = FamilyChoice::Ipv4;
    EXPECT_EQ(index_of(port, settings), -1);
    EXPECT_EQ(problem(port, settings),
              "has no usable RoCE v2 address (not IPv4, as family=ipv4 asks): left out; add an "
              "IPv4 address, or set family=auto");
}

TEST(ChooseGid, FamilyIpv6TakesIt) {
    Port port = with_fe80();
    add_both(port, 2, "10.0.0.1", "eth0");
    add_both(port, 4, "fd00::1", "eth0");
    Settings settings;
    EXPECT_EQ(index_of(port, settings), 3);
    settings.family = FamilyChoice::Ipv6;
    EXPECT_EQ(index_of(port, settings), 5);
}

TEST(ChooseGid, PrefixBeatsOrderAndFamily) {
    Port port = with_fe80();
    add_both(port, 2, "10.0.0.1", "eth0");
    add_both(port, 4, "10.2.0.1", "eth0");
    add_both(port, 6, "fd00::1", "eth0");
    Settings settings;
    settings.prefix = IpPrefix::parse("10.2.0.0/16");
    EXPECT_EQ(index_of(port, settings), 5);
    EXPECT_EQ(reason(port, 3, settings), "index 5 is preferred: inside 10.2.0.0/16");
    settings.prefix = IpPrefix::parse("fd00::/8");
    EXPECT_EQ(index_of(port, settings), 7);
    settings.prefix = IpPrefix::parse("192.168.0.0/16");
    EXPECT_EQ(index_of(port, settings), 3); // nothing inside: as without
}

TEST(ChooseGid, LinkLocalComesLast) {
    Port port = with_fe80();
    EXPECT_EQ(index_of(port), 1);
    EXPECT_EQ(problem(port), "has no RoCE v2 address (only fe80::): left out; give eth0 an IPv4 address");
    add_both(port, 2, "169.254.3.4", "eth0");
    EXPECT_EQ(index_of(port), 3);
    EXPECT_EQ(problem(port), "has no RoCE v2 address (only 169.254/16): left out; give eth0 an IPv4 address");
    add_both(port, 4, "fd00::1", "eth0");
    EXPECT_EQ(index_of(port), 5);
}

TEST(ChooseGid, LowestIndexOnTies) {
    Port port = with_fe80();
    add_both(port, 2, "10.0.0.1", "eth0");
    add_both(port, 4, "10.2.0.1", "eth0");
    EXPECT_EQ(index_of(port), 3);
    EXPECT_EQ(reason(port, 5), "as good as index 3, which comes first");
}

TEST(ChooseGid, IndexAbove255CannotBeUsed) {
    Port port = with_fe80();
    port.gid_table_length = 1024;
    add_both(port, 300, "10.0.0.1", "eth0");
    EXPECT_EQ(index_of(port), 1);
    EXPECT_NE(problem(port).find("index 301 is above 255"), std::string::npos) << problem(port);
    port.gids.erase(port.gids.begin(), port.gids.begin() + 2);
    EXPECT_EQ(index_of(port), -1);
    port.gids[1].index = 255;
    EXPECT_EQ(index_of(port), 255);
}

TEST(ChooseGid, UnreadableTypesAreSkipped) {
    Port port = make_port();
    port.gids = {make_gid(0, "10.0.0.1", std::nullopt, "eth0"), make_gid(2, "10.0.0.2", GidType::RoceV2, "eth0")};
    EXPECT_EQ(index_of(port), 2);
    EXPECT_EQ(reason(port, 0), "its type cannot be read (Invalid argument)");
    port.gids.pop_back();
    EXPECT_NE(problem(port).find("its type cannot be read"), std::string::npos);
}

TEST(ChooseGid, TheInterfaceMustBeHereAndUp) {
    Port port = make_port();
    port.gids = {make_gid(0, "10.0.0.1", GidType::RoceV2, "pod7"), make_gid(1, "10.0.0.2", GidType::RoceV2, ""),
                 make_gid(2, "10.0.0.3", GidType::RoceV2, "lo"), make_gid(3, "10.0.0.4", GidType::RoceV2, "eth9")};
    EXPECT_EQ(index_of(port), -1);
    EXPECT_EQ(reason(port, 0), "pod7 is not in this network namespace");
    EXPECT_EQ(reason(port, 1), "no interface in this network namespace");
    EXPECT_EQ(reason(port, 2), "lo is the loopback interface");
    EXPECT_EQ(reason(port, 3), "eth9 is down");
    EXPECT_EQ(problem(port), "has no usable RoCE v2 address (eth9 is down): left out; bring eth9 up");
}

TEST(ChooseGid, WithoutAnyInterfaceInTheTreeNoneIsAskedFor) {
    Port port = make_port();
    port.gids = {make_gid(0, "10.0.0.1", GidType::RoceV2, "eth0")};
    EXPECT_NE(choose_gid(Fabric{}, port, {}).gid, nullptr);
}

TEST(ChooseGid, AddressesOfNoNode) {
    Port port = make_port();
    port.gids = {make_gid(0, "127.0.0.1", GidType::RoceV2, "eth0"), make_gid(1, "ff02::1", GidType::RoceV2, "eth0"),
                 make_gid(2, "224.0.0.1", GidType::RoceV2, "eth0"), make_gid(3, "0.0.0.0", GidType::RoceV2, "eth0")};
    EXPECT_EQ(index_of(port), -1);
    EXPECT_EQ(reason(port, 1), "ff02::1 is no address of a node");
}

TEST(ChooseGid, EmptyTable) {
    Port port = make_port();
    EXPECT_EQ(index_of(port), -1);
    EXPECT_NE(problem(port).find("has no GID at all (256 slots are empty)"), std::string::npos);
}

TEST(ChooseGid, Forced) {
    Port port = with_fe80();
    add_both(port, 2, "10.0.0.1", "eth0");
    Settings settings;
    settings.gid = 2;
    const auto choice = choose_gid(machine(), port, settings);
    ASSERT_NE(choice.gid, nullptr);
    EXPECT_EQ(choice.gid->index, 2U);
    EXPECT_EQ(choice.doubt, "RoCE v1");
    EXPECT_EQ(choice.verdicts.at(2).reason, "forced by gid=2");
    EXPECT_EQ(choice.verdicts.at(3).reason, "not gid=2");
    settings.gid = 3;
    EXPECT_EQ(choose_gid(machine(), port, settings).doubt, "");
    settings.gid = 7;
    EXPECT_EQ(index_of(port, settings), -1);
    EXPECT_NE(problem(port, settings).find("has nothing at GID index 7 (gid=7): left out"), std::string::npos);
    settings.gid = 300;
    add_both(port, 300, "10.0.0.9", "eth0");
    EXPECT_EQ(index_of(port, settings), -1);
    EXPECT_NE(problem(port, settings).find("0 to 255"), std::string::npos);
}

} // namespace
} // namespace rdma_nccl
