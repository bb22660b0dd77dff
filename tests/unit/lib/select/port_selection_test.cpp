// SPDX-License-Identifier: Apache-2.0
// Which ports are used, and the reason each other one is given.
#include "lib/select/port_selection.h"

#include "lib/base/format.h"
#include "tests/unit/fabric_machine.h"
#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using test::add_both;
using test::add_gpu;
using test::add_infiniband;
using test::add_roce;
using test::below_root_port;
using test::make_gid;
using test::make_netdev;
using test::make_port;
using test::port_of;
using test::reason_of;

HcaChoice hca_setting(std::vector<HcaChoice::Item> items, bool exclude = false) {
    HcaChoice choice;
    choice.items = std::move(items);
    choice.exclude = exclude;
    return choice;
}

std::string pci(const std::string& bridge, const std::string& bus) {
    return "/sys/devices/" + below_root_port(bridge, bus);
}

/// Two RoCE ports of the fabric.
Fabric two_rails() {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1", pci("50", "53"));
    add_roce(fabric, "mlx5_1", "eth1", "10.0.1.1", pci("60", "63"));
    return fabric;
}

bool warned(const FabricChoice& choice, const std::string& part) {
    return std::any_of(choice.warnings.begin(), choice.warnings.end(),
                       [&](const std::string& warning) { return warning.find(part) != std::string::npos; });
}

TEST(ChooseFabric, AllGoodPortsWithOneIndex) {
    Fabric fabric = two_rails();
    fabric.hcas.emplace_back().name = "mlx5_2";
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(choice.common_gid_index, 3U);
    EXPECT_FALSE(choice.gid_family_is_ipv6);
    EXPECT_FALSE(choice.gid_range);
    EXPECT_TRUE(choice.warnings.empty());
    EXPECT_EQ(reason_of(choice, "mlx5_0"), "is used: RoCE, GID 3 (10.0.0.1), 200 Gb/s");
    EXPECT_EQ(port_of(choice, "mlx5_0").gid_index, 3U);
    EXPECT_TRUE(choice.uses("mlx5_1"));
    EXPECT_FALSE(choice.uses("mlx5_2"));
    EXPECT_EQ(choice.reason_for(fabric.hcas[1]), reason_of(choice, "mlx5_1"));
    EXPECT_EQ(choice.reason_for(fabric.hcas[2]), "has no port: left out");
    fabric.hcas[2].problems = {"node_type: Permission denied", "/sys/class/infiniband/mlx5_2/ports: Permission denied"};
    EXPECT_EQ(choice.reason_for(fabric.hcas[2]),
              "has no port (/sys/class/infiniband/mlx5_2/ports: Permission denied): left out");
}

TEST(ChooseFabric, InfinibandNeedsNoIndex) {
    Fabric fabric;
    add_infiniband(fabric, "mlx5_0");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1");
    EXPECT_FALSE(choice.common_gid_index);
    EXPECT_FALSE(port_of(choice, "mlx5_0").gid_index);
    EXPECT_EQ(reason_of(choice, "mlx5_0"), "is used: InfiniBand, 400 Gb/s");
    EXPECT_EQ(port_of(choice, "mlx5_0").gids.at(0).reason, "only RoCE needs a GID index");
}

TEST(ChooseFabric, EmptyFabric) {
    const auto choice = choose_fabric({}, {});
    EXPECT_TRUE(choice.ports.empty());
    EXPECT_EQ(choice.nccl_ib_hca(), "");
    EXPECT_TRUE(choice.warnings.empty());
}

TEST(Filters, IwarpEfaAndOthersAreNamed) {
    Fabric fabric = two_rails();
    add_roce(fabric, "siw0", "eth2", "10.0.2.1").node_type = "RNIC";
    add_roce(fabric, "rdmap0s6", "eth3", "10.0.3.1").driver = "efa";
    add_roce(fabric, "odd0", "eth4", "10.0.4.1").node_type = "unspecified";
    add_roce(fabric, "dark0", "eth5", "10.0.5.1").ports[0].link_layer = LinkLayer::Unknown;
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(reason_of(choice, "siw0"), "is iWARP (node type RNIC), which NCCL cannot use: left out");
    EXPECT_EQ(reason_of(choice, "rdmap0s6"),
              "is EFA, which has no RoCE: left out; NCCL reaches it through the aws-ofi-nccl plugin");
    EXPECT_EQ(reason_of(choice, "odd0"), "has node type 'unspecified', neither RoCE nor InfiniBand: left out");
    EXPECT_EQ(reason_of(choice, "dark0"), "has neither Ethernet nor InfiniBand as link layer: left out");
    EXPECT_TRUE(choice.warnings.empty());
}

TEST(Filters, AFileThatCannotBeReadIsNamed) {
    Fabric fabric = two_rails();
    auto& dark = add_roce(fabric, "dark0", "eth2", "10.0.2.1").ports[0];
    dark.link_layer = LinkLayer::Unknown;
    dark.problems = {"link_layer: Input/output error"};
    auto& closed = add_roce(fabric, "closed0", "eth3", "10.0.3.1").ports[0];
    closed = Port();
    closed.problems = {"/sys/class/infiniband/closed0/ports/1: Too many open files"};
    auto& silent = add_roce(fabric, "silent0", "eth4", "10.0.4.1").ports[0];
    silent.state.clear();
    silent.problems = {"state: Connection timed out", "rate: Connection timed out"};
    auto& table = add_roce(fabric, "table0", "eth5", "").ports[0];
    table.gids.clear();
    table.problems = {"gids/3: Input/output error"};
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(port_of(choice, "dark0").rule, PortRule::StateUnreadable);
    EXPECT_EQ(reason_of(choice, "dark0"),
              "cannot be read (link_layer: Input/output error): left out; look for its driver in the kernel log");
    EXPECT_EQ(reason_of(choice, "closed0"), "cannot be read (/sys/class/infiniband/closed0/ports/1: Too many open "
                                            "files): left out; look for its driver in the kernel log");
    EXPECT_EQ(reason_of(choice, "silent0"),
              "cannot be read (state: Connection timed out): left out; look for its driver in the kernel log");
    EXPECT_EQ(port_of(choice, "table0").rule, PortRule::NoGidTable);
    EXPECT_EQ(reason_of(choice, "table0"), "has no GID table that can be read (gids/3: Input/output error): left out");
}

TEST(Filters, ANodeWithEfaAloneIsNothingToWarnOf) {
    Fabric fabric = two_rails();
    for (auto& hca : fabric.hcas) {
        hca.driver = "efa";
    }
    const auto choice = choose_fabric(fabric, {});
    EXPECT_TRUE(choice.is_efa());
    EXPECT_TRUE(choice.warnings.empty());
    EXPECT_FALSE(choose_fabric({}, {}).is_efa());
}

TEST(Filters, AnAddressWithoutItsEntryIsNoLackOfAnAddress) {
    Fabric fabric = two_rails();
    auto& hca = add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1");
    hca.ports[0].gids.resize(2); // fe80::, as just after the address was given
    EXPECT_EQ(reason_of(choose_fabric(fabric, {}), "mlx5_2"),
              "has no RoCE v2 address (only fe80::): left out; eth2 has 10.0.2.1, which is not in the GID table yet: "
              "try again, or set eth2 down and up");
    hca.ports[0].problems = {"gids/3: Input/output error"};
    EXPECT_EQ(
        reason_of(choose_fabric(fabric, {}), "mlx5_2").find("has no RoCE v2 address (only fe80::; gids/3: Input/"), 0U);
}

TEST(Filters, OnlyActivePorts) {
    Fabric fabric = two_rails();
    auto& down = add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1").ports[0];
    down.state = "DOWN";
    down.physical_state = "Disabled";
    add_roce(fabric, "mlx5_3", "eth3", "10.0.3.1").ports[0].state = "ACTIVE_DEFER";
    add_roce(fabric, "mlx5_4", "eth4", "10.0.4.1").ports[0].state = "";
    add_infiniband(fabric, "mlx5_5").ports[0].state = "INIT";
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(reason_of(choice, "mlx5_2"), "is DOWN (Disabled): left out; bring its link up");
    EXPECT_EQ(reason_of(choice, "mlx5_3"), "is ACTIVE_DEFER (LinkUp): left out; bring its link up");
    EXPECT_EQ(reason_of(choice, "mlx5_4"),
              "cannot be read (state: empty): left out; look for its driver in the kernel log");
    EXPECT_EQ(reason_of(choice, "mlx5_5"), "is INIT: left out; no subnet manager has configured it");
}

TEST(Filters, APortWithoutUsableGidIsLeftOutAndWarnedOf) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1");
    fabric.netdevs.back().up = false;
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
    ASSERT_EQ(choice.warnings.size(), 1U);
    EXPECT_EQ(choice.warnings[0],
              "mlx5_2 port 1 has no usable RoCE v2 address (eth2 is down): left out; bring eth2 up");
    EXPECT_FALSE(port_of(choice, "mlx5_2").gid_index);
}

TEST(Filters, ASlowPortWithoutAddressIsNobodysConcern) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "", "", 25);
    EXPECT_TRUE(choose_fabric(fabric, {}).warnings.empty());
}

TEST(Filters, VirtualFunctionsOnlyWithoutTheirPhysicalOne) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1", "/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.2")
        .physical_function = "0000:53:00.0";
    add_roce(fabric, "mlx5_3", "eth3", "10.0.3.1", pci("70", "73")).physical_function = "0000:99:00.0";
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1,mlx5_3:1");
    EXPECT_EQ(reason_of(choice, "mlx5_2"),
              "is a virtual function of mlx5_0 (0000:53:00.0), which is usable itself: left out");
}

TEST(Filters, VirtualFunctionsOfABondsSecondCardFunction) {
    Fabric fabric;
    add_roce(fabric, "mlx5_bond_0", "bond0", "10.0.0.1", pci("50", "53")).netdevs = {"eth0", "bond0"};
    fabric.netdevs.back().lowers = {"eth0", "eth1"};
    fabric.netdevs.push_back(make_netdev("eth0", pci("50", "53")));
    fabric.netdevs.push_back(make_netdev("eth1", "/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.1"));
    fabric.netdevs[1].upper = fabric.netdevs[2].upper = "bond0";
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1").physical_function = "0000:53:00.1";
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_bond_0:1");
}

TEST(Filters, AVirtualFunctionIsUsedWhenItsPhysicalOneIsNot) {
    Fabric fabric = two_rails();
    fabric.hcas[0].ports[0].state = "DOWN";
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1").physical_function = "0000:53:00.0";
    EXPECT_TRUE(choose_fabric(fabric, {}).uses("mlx5_2"));
}

TEST(Filters, TheBondInsteadOfItsSlaves) {
    Fabric fabric;
    add_roce(fabric, "mlx5_bond_0", "bond0", "10.0.0.1", pci("50", "53"));
    fabric.netdevs.back().lowers = {"eth1", "eth2"};
    add_roce(fabric, "mlx5_1", "eth1", "", pci("50", "54"));
    fabric.netdevs.back().upper = "bond0";
    add_roce(fabric, "mlx5_2", "eth2", "10.0.9.1", pci("50", "55"));
    fabric.netdevs.back().upper = "bond0";
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_bond_0:1");
    EXPECT_EQ(reason_of(choice, "mlx5_1"), "is a slave of bond0, which mlx5_bond_0 uses as a whole: left out");
    EXPECT_FALSE(choice.uses("mlx5_2"));
}

TEST(Filters, CardsThatShareABondWithoutABondDeviceBothStay) {
    Fabric fabric;
    fabric.netdevs = {make_netdev("bond0")};
    for (const std::string name : {"0", "1"}) {
        auto& hca = add_roce(fabric, "mlx5_" + name, "eth" + name, "", pci("50", "5" + name));
        fabric.netdevs.back().upper = "bond0";
        add_both(hca.ports[0], 2, "10.0.0.1", "bond0");
        hca.netdevs.emplace_back("bond0");
    }
    EXPECT_EQ(choose_fabric(fabric, {}).used().size(), 2U);
}

TEST(Filters, OneLinkLayerTheNearerToTheGpus) {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1", pci("10", "13"), 400);
    add_roce(fabric, "mlx5_1", "eth1", "10.0.1.1", pci("20", "23"), 400);
    add_infiniband(fabric, "mlx5_2", pci("50", "53"), 400);
    const auto by_rate = choose_fabric(fabric, {});
    EXPECT_EQ(by_rate.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1"); // 800 Gb/s against 400
    EXPECT_EQ(reason_of(by_rate, "mlx5_2"),
              "is InfiniBand, and the node's RoCE ports are not slower in total: left out; "
              "NCCL cannot join both");
    add_gpu(fabric, "/sys/devices/pci0000:50/0000:50:01.0/0000:54:00.0");
    const auto by_gpu = choose_fabric(fabric, {});
    EXPECT_EQ(by_gpu.nccl_ib_hca(), "=mlx5_2:1");
    EXPECT_EQ(reason_of(by_gpu, "mlx5_0"),
              "is RoCE, and the node's InfiniBand ports are nearer to the GPUs: left out; NCCL cannot join both");
}

TEST(Filters, StorageBondBesideEightInfinibandPorts) {
    Fabric fabric;
    for (unsigned i = 0; i < 8; ++i) {
        const std::string bus = format_text("{}0", i + 1);
        add_infiniband(fabric, format_text("mlx5_{}", i), pci(bus, "a1"), 400);
        add_gpu(fabric, "/sys/devices/" + below_root_port(bus, "a2"));
    }
    add_roce(fabric, "mlx5_bond_0", "bond0", "10.0.0.1", pci("10", "b1"), 400);
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.used().size(), 8U);
    EXPECT_FALSE(choice.uses("mlx5_bond_0"));
}

TEST(Filters, AFlatVirtualMachineClaimsNoNearness) {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1", "/sys/devices/pci0000:00/0000:00:04.0", 100);
    add_infiniband(fabric, "mlx5_1", "/sys/devices/pci0000:00/0000:00:05.0", 200);
    add_gpu(fabric, "/sys/devices/pci0000:00/0000:00:06.0");
    EXPECT_EQ(choose_fabric(fabric, {}).nccl_ib_hca(), "=mlx5_1:1");
}

TEST(Filters, LinkLocalPortsBesideRoutableOnes) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_3", "eth3", "");
    add_roce(fabric, "mlx5_4", "eth4", "169.254.7.8");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(choice.warnings,
              (std::vector<std::string>{
                  "mlx5_3 port 1 has no RoCE v2 address (only fe80::): left out; give eth3 an IPv4 address "
                  "(likewise mlx5_4 port 1)"}));
    EXPECT_EQ(reason_of(choice, "mlx5_4"),
              "has no RoCE v2 address (only 169.254/16): left out; give eth4 an IPv4 address");
}

TEST(Filters, LinkLocalPortsWhereThereIsNothingElse) {
    Fabric fabric;
    add_roce(fabric, "mlx5_3", "eth3", "");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_3:1");
    EXPECT_EQ(choice.common_gid_index, 1U);
    EXPECT_TRUE(choice.gid_family_is_ipv6);
    ASSERT_EQ(choice.warnings.size(), 1U);
    EXPECT_TRUE(warned(choice, "mlx5_3 port 1 has only a link-local address (fe80::e42:a1ff:fe2b:3c4d)"));
}

TEST(Filters, TheTopRateClass) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1", "", 25);
    add_roce(fabric, "mlx5_3", "eth3", "10.0.3.1", "", 0); // unknown: stays
    auto& lying = add_roce(fabric, "mlx5_4", "eth4", "10.0.4.1", "", 10).ports[0];
    lying.netdev_gbps = 200;
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1,mlx5_3:1,mlx5_4:1");
    EXPECT_EQ(reason_of(choice, "mlx5_2"), "runs at 25 Gb/s, others at 200 Gb/s: left out");
    EXPECT_EQ(reason_of(choice, "mlx5_3"), "is used: RoCE, GID 3 (10.0.3.1), rate unknown");
}

TEST(Filters, ABondCountsByItsLinksNotByTheirSum) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_bond_0", "bond0", "10.0.2.1", pci("70", "73"), 400);
    fabric.netdevs.back().lowers = {"eth8", "eth9"};
    for (const std::string name : {"eth8", "eth9"}) {
        fabric.netdevs.push_back(make_netdev(name));
        fabric.netdevs.back().upper = "bond0";
        fabric.netdevs.back().speed_gbps = 200;
    }
    EXPECT_EQ(choose_fabric(fabric, {}).used().size(), 3U);
}

TEST(Filters, NotTheManagementPort) {
    Fabric fabric = two_rails();
    fabric.default_route_netdevs = {"eth0"};
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_1:1");
    EXPECT_EQ(reason_of(choice, "mlx5_0"),
              "is the management port (eth0 has the default route): left out; hca= can name it");
    EXPECT_FALSE(port_of(choice, "mlx5_0").gid_index);
    EXPECT_EQ(port_of(choice, "mlx5_0").gids.at(3).reason, "the port is left out");
    EXPECT_TRUE(choice.warnings.empty());
}

TEST(Filters, TheDefaultRouteAboveBondVlanBridgeAndNetvsc) {
    // Each time eth0 is below the interface with the default route.
    const auto left_out = [](std::vector<Netdev> above, const std::string& carrier, const std::string& upper) {
        Fabric fabric = two_rails();
        fabric.netdevs[0].upper = upper;
        fabric.netdevs.insert(fabric.netdevs.end(), above.begin(), above.end());
        fabric.default_route_netdevs = {carrier};
        return !choose_fabric(fabric, {}).uses("mlx5_0") && choose_fabric(fabric, {}).uses("mlx5_1");
    };
    const auto above = [](const std::string& name, std::vector<std::string> lowers) {
        Netdev netdev = make_netdev(name);
        netdev.lowers = std::move(lowers);
        return netdev;
    };
    EXPECT_TRUE(left_out({above("bond0", {"eth0", "eth7"})}, "bond0", "bond0"));
    EXPECT_TRUE(left_out({above("eth0.100", {"eth0"})}, "eth0.100", ""));
    EXPECT_TRUE(
        left_out({above("br0", {"bond0.5"}), above("bond0.5", {"bond0"}), above("bond0", {"eth0"})}, "br0", ""));
    EXPECT_TRUE(left_out({above("synthetic0", {})}, "synthetic0", "synthetic0"));   // netvsc: only the master link
    EXPECT_TRUE(left_out({above("a", {"b", "eth0"}), above("b", {"a"})}, "b", "")); // a circle must end
    EXPECT_FALSE(left_out({above("br0", {"eth9"})}, "br0", ""));
}

TEST(Filters, TheOnlyPortStaysEvenWithTheDefaultRoute) {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1");
    fabric.default_route_netdevs = {"eth0"};
    EXPECT_TRUE(choose_fabric(fabric, {}).uses("mlx5_0"));
}

TEST(Filters, APortBesideAGpuStaysEvenWithTheDefaultRoute) {
    Fabric fabric = two_rails();
    fabric.default_route_netdevs = {"eth0"};
    add_gpu(fabric, "/sys/devices/pci0000:50/0000:50:01.0/0000:54:00.0");
    EXPECT_TRUE(choose_fabric(fabric, {}).uses("mlx5_0"));
}

TEST(Filters, OfACardWithTwoPortsOnlyTheOneWithTheDefaultRoute) {
    Fabric fabric;
    auto& hca = add_roce(fabric, "mlx4_0", "eth0", "10.0.0.1");
    hca.netdevs = {"eth0", "eth1"};
    hca.ports.push_back(make_port());
    hca.ports[1].number = 2;
    add_both(hca.ports[1], 2, "10.0.1.1", "eth1");
    fabric.netdevs.push_back(make_netdev("eth1"));
    fabric.default_route_netdevs = {"eth0"};
    EXPECT_EQ(choose_fabric(fabric, {}).nccl_ib_hca(), "=mlx4_0:2");
}

TEST(Filters, AtMostAsManyPortsAsNcclTakes) {
    Fabric fabric;
    for (unsigned i = 0; i < 40; ++i) {
        add_roce(fabric, format_text("mlx5_{}", i), format_text("eth{}", i), format_text("10.0.{}.1", i));
    }
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.used().size(), 32U);
    EXPECT_FALSE(choice.uses("mlx5_32"));
    EXPECT_EQ(reason_of(choice, "mlx5_39"), "is one more than the 32 ports that NCCL takes: left out");
}

TEST(Filters, NothingUsableIsSaidWithTheReasons) {
    Fabric fabric = two_rails();
    fabric.hcas[0].ports[0].state = "DOWN";
    fabric.hcas[1].node_type = "RNIC";
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.nccl_ib_hca(), "");
    ASSERT_EQ(choice.warnings.size(), 1U);
    EXPECT_EQ(choice.warnings[0], "no RDMA port is usable, NCCL will use sockets: mlx5_0 port 1 is DOWN (LinkUp): left "
                                  "out; bring its link up; mlx5_1 port 1 is iWARP (node type RNIC), which NCCL cannot "
                                  "use: left out");
}

TEST(HcaSetting, NamedPortsPassWithoutTheAutomaticFilters) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1", "", 25);
    fabric.default_route_netdevs = {"eth0"};
    Settings settings;
    settings.hca = hca_setting({{"mlx5_0", std::nullopt}, {"mlx5_2", 1}});
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_2:1");
    EXPECT_EQ(reason_of(choice, "mlx5_0"), "is used as hca=mlx5_0+mlx5_2:1: RoCE, GID 3 (10.0.0.1), 200 Gb/s");
    EXPECT_EQ(reason_of(choice, "mlx5_1"), "is not in hca=mlx5_0+mlx5_2:1: left out");
    EXPECT_TRUE(choice.warnings.empty());
}

TEST(HcaSetting, NamesAreExact) {
    Fabric fabric;
    add_roce(fabric, "mlx5_1", "eth1", "10.0.1.1");
    add_roce(fabric, "mlx5_10", "eth10", "10.0.10.1");
    Settings settings;
    settings.hca = hca_setting({{"mlx5_1", std::nullopt}});
    EXPECT_EQ(choose_fabric(fabric, settings).nccl_ib_hca(), "=mlx5_1:1");
}

TEST(HcaSetting, WhatCannotWorkIsLeftOutWithAWarning) {
    Fabric fabric = two_rails();
    fabric.hcas[0].ports[0].state = "DOWN";
    Settings settings;
    settings.hca =
        hca_setting({{"mlx5_0", std::nullopt}, {"mlx5_1", std::nullopt}, {"mlx5_7", std::nullopt}, {"mlx5_1", 2}});
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_1:1");
    EXPECT_TRUE(warned(choice, "no HCA mlx5_7 on this node; there are mlx5_0, mlx5_1"));
    EXPECT_TRUE(warned(choice, "mlx5_1 has no port 2; it has 1 port"));
    EXPECT_TRUE(warned(choice, "mlx5_0 port 1 is DOWN (LinkUp): left out"));
    EXPECT_EQ(choice.warnings.size(), 3U);
}

TEST(HcaSetting, ANamedPortWithoutUsableGidIsLeftOut) {
    Fabric fabric = two_rails();
    fabric.hcas[0].ports[0].gids.clear();
    Settings settings;
    settings.hca = hca_setting({{"mlx5_0", std::nullopt}, {"mlx5_1", std::nullopt}});
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_1:1");
    EXPECT_TRUE(warned(choice, "mlx5_0 port 1 has no GID at all"));
}

TEST(HcaSetting, APhysicalFunctionAndItsVirtualOneMayBothBeNamed) {
    Fabric fabric = two_rails();
    fabric.hcas[1].physical_function = "0000:53:00.0";
    Settings settings;
    settings.hca = hca_setting({{"mlx5_0", std::nullopt}, {"mlx5_1", std::nullopt}});
    EXPECT_EQ(choose_fabric(fabric, settings).used().size(), 2U);
    EXPECT_EQ(choose_fabric(fabric, {}).used().size(), 1U);
}

TEST(HcaSetting, ExcludedPortsAreLeftOutAndTheRestIsAutomatic) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1", "", 25);
    Settings settings;
    settings.hca = hca_setting({{"mlx5_0", std::nullopt}}, true);
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_1:1");
    EXPECT_EQ(reason_of(choice, "mlx5_0"), "is excluded by hca=^mlx5_0: left out");
    EXPECT_EQ(reason_of(choice, "mlx5_2"), "runs at 25 Gb/s, others at 200 Gb/s: left out");
    EXPECT_EQ(reason_of(choice, "mlx5_1"), "is used: RoCE, GID 3 (10.0.1.1), 200 Gb/s");
}

TEST(HcaSetting, BothLinkLayersAreWarnedOf) {
    Fabric fabric = two_rails();
    add_infiniband(fabric, "mlx5_2");
    Settings settings;
    settings.hca = hca_setting({{"mlx5_0", std::nullopt}, {"mlx5_2", std::nullopt}});
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.used().size(), 2U);
    EXPECT_TRUE(warned(choice, "NCCL cannot join them"));
}

TEST(GidIndex, DifferingIndicesAreLeftToNccl) {
    Fabric fabric = two_rails();
    auto& port = fabric.hcas[1].ports[0];
    port.gids.clear();
    add_both(port, 0, test::link_local_gid, "eth1");
    add_both(port, 2, "fd00::1", "eth1");
    add_both(port, 4, "10.0.1.1", "eth1");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_FALSE(choice.common_gid_index);
    EXPECT_FALSE(choice.gid_range); // NCCL finds both by itself
    EXPECT_EQ(port_of(choice, "mlx5_1").gid_index, 5U);
    ASSERT_EQ(choice.warnings.size(), 1U);
    EXPECT_TRUE(warned(choice, "the GID index differs (index 3: mlx5_0 port 1; index 5: mlx5_1 port 1): "
                               "NCCL_IB_GID_INDEX stays unset; NCCL 2.21 or newer"));
}

TEST(GidIndex, ARangeKeepsNcclFromALinkLocalEntry) {
    Fabric fabric = two_rails();
    auto& port = fabric.hcas[1].ports[0];
    port.gids.clear();
    add_both(port, 0, test::link_local_gid, "eth1");
    add_both(port, 2, "169.254.3.4", "eth1");
    add_both(port, 4, "10.0.1.1", "eth1");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.gid_range, IpPrefix::parse("10.0.0.0/23")); // the smallest network with both chosen addresses
    EXPECT_EQ(choice.warnings.size(), 1U);
}

TEST(GidIndex, ThePrefixIsToldToNccl) {
    Fabric fabric = two_rails();
    auto& port = fabric.hcas[1].ports[0];
    add_both(port, 4, "10.2.1.1", "eth1");
    add_both(fabric.hcas[0].ports[0], 8, "10.2.0.1", "eth0");
    Settings settings;
    settings.prefix = IpPrefix::parse("10.2.0.0/16");
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(port_of(choice, "mlx5_0").gid_index, 9U);
    EXPECT_EQ(port_of(choice, "mlx5_1").gid_index, 5U);
    EXPECT_EQ(choice.gid_range, settings.prefix);
    EXPECT_EQ(choice.warnings.size(), 1U);
}

TEST(GidIndex, ThePrefixIsToldAlsoWhereNcclWouldManageWithout) {
    Fabric fabric = two_rails();
    fabric.hcas[1].ports[0].gids.pop_back();
    add_both(fabric.hcas[1].ports[0], 4, "10.0.1.1", "eth1");
    Settings settings;
    settings.prefix = IpPrefix::parse("10.0.0.0/8");
    EXPECT_EQ(choose_fabric(fabric, settings).gid_range, settings.prefix);
    EXPECT_FALSE(choose_fabric(fabric, {}).gid_range);
}

TEST(GidIndex, WhereNcclCannotBeToldItIsWarnedOf) {
    // The VLAN's address comes first, and no range separates it from the one that is wanted.
    Fabric fabric = two_rails();
    fabric.netdevs.push_back(make_netdev("eth1.7"));
    fabric.netdevs.back().lowers = {"eth1"};
    auto& port = fabric.hcas[1].ports[0];
    port.gids.clear();
    add_both(port, 0, test::link_local_gid, "eth1");
    add_both(port, 2, "10.0.0.77", "eth1.7");
    add_both(port, 4, "10.0.1.1", "eth1");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(port_of(choice, "mlx5_1").gid_index, 5U);
    EXPECT_FALSE(choice.gid_range);
    EXPECT_TRUE(warned(choice, "mlx5_1 port 1: NCCL will take GID index 3 instead of 5 (10.0.1.1)"));
}

TEST(GidIndex, UnreadableTypesAreWarnedOfWhereNcclChooses) {
    Fabric fabric = two_rails();
    auto& port = fabric.hcas[1].ports[0];
    port.gids = {make_gid(0, "10.0.7.1", std::nullopt, ""), make_gid(1, "10.0.1.1", GidType::RoceV2, "eth1")};
    EXPECT_TRUE(warned(choose_fabric(fabric, {}), "NCCL 2.21 to 2.25 stop there"));
}

TEST(GidIndex, Ipv6OnlyIsToldToNccl) {
    Fabric fabric;
    add_roce(fabric, "mlx5_0", "eth0", "fd00::1");
    add_roce(fabric, "mlx5_1", "eth1", "fd00:1::1");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.common_gid_index, 3U);
    EXPECT_TRUE(choice.gid_family_is_ipv6);
    EXPECT_TRUE(choice.warnings.empty());
}

TEST(GidIndex, BothFamiliesAreWarnedOf) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "fd00::1");
    const auto choice = choose_fabric(fabric, {});
    EXPECT_FALSE(choice.gid_family_is_ipv6);
    EXPECT_TRUE(warned(choice, "some RoCE ports have an IPv4 address, others IPv6 only"));
}

TEST(GidIndex, ForcedOnAPortWhereItIsNotThere) {
    Fabric fabric = two_rails();
    fabric.hcas[1].ports[0].gids.resize(2);
    Settings settings;
    settings.gid = 3;
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1");
    EXPECT_EQ(choice.common_gid_index, 3U);
    EXPECT_TRUE(warned(choice, "mlx5_1 port 1 has nothing at GID index 3 (gid=3): left out"));
    settings.gid = 0;
    EXPECT_TRUE(warned(choose_fabric(fabric, settings), "mlx5_0 port 1: gid=0 is used as asked, although: RoCE v1"));
}

TEST(GidIndex, APrefixThatNoPortHas) {
    Settings settings;
    settings.prefix = IpPrefix::parse("10.9.0.0/24");
    const auto choice = choose_fabric(two_rails(), settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(choice.common_gid_index, 3U);
    EXPECT_TRUE(warned(choice, "mlx5_0 port 1 has no usable address in 10.9.0.0/24 (prefix): 10.0.0.1 is used"));
}

TEST(Prefix, LeavesOutPortsOutsideOfIt) {
    Settings settings;
    settings.prefix = IpPrefix::parse("10.0.0.0/24");
    auto fabric = two_rails();
    auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_0:1");
    EXPECT_EQ(port_of(choice, "mlx5_1").rule, PortRule::OutsidePrefix);
    EXPECT_EQ(reason_of(choice, "mlx5_1"),
              "has no usable address in 10.0.0.0/24 (prefix) as others have, but 10.0.1.1: left out");
    EXPECT_TRUE(choice.warnings.empty()) << "it is what the prefix is for";

    add_gpu(fabric, pci("60", "64"));
    choice = choose_fabric(fabric, settings);
    EXPECT_TRUE(warned(choice, "mlx5_1 port 1 has no usable address in 10.0.0.0/24")) << "a rail is missing";

    settings.hca = hca_setting({{"mlx5_1", {}}});
    EXPECT_EQ(choose_fabric(fabric, settings).nccl_ib_hca(), "=mlx5_1:1");
    settings.hca = hca_setting({{"mlx5_1", {}}, {"mlx5_0", {}}});
    EXPECT_EQ(choose_fabric(fabric, settings).nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
}

TEST(Prefix, ComesBeforeOtherPreferences) {
    auto fabric = two_rails();
    fabric.hcas[0].physical_function = fabric.hcas[1].pci;
    fabric.hcas[1].ports[0].rate_gbps = 400;
    Settings settings;
    EXPECT_EQ(choose_fabric(fabric, settings).nccl_ib_hca(), "=mlx5_1:1");
    settings.prefix = IpPrefix::parse("10.0.0.0/24");
    EXPECT_EQ(choose_fabric(fabric, settings).nccl_ib_hca(), "=mlx5_0:1");
}

TEST(Prefix, SaysNothingOfInfinibandAndLinkLocalPorts) {
    auto fabric = two_rails();
    fabric.netdevs[1].addresses.clear();
    fabric.hcas[1].ports[0].gids.resize(2);
    add_infiniband(fabric, "mlx5_2", pci("70", "73"), 800);
    Settings settings;
    settings.prefix = IpPrefix::parse("10.0.0.0/24");
    const auto choice = choose_fabric(fabric, settings);
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_2:1") << "the faster link layer, as without";
    EXPECT_EQ(port_of(choice, "mlx5_1").rule, PortRule::OtherLinkLayer);
}

TEST(WholeMachine, NineHcasReadAndChosen) {
    test::Machine machine;
    for (unsigned i = 0; i < 9; ++i) {
        const auto path = below_root_port(format_text("{}0", i + 1), "a1");
        machine.connectx(format_text("mlx5_{}", i), format_text("eth{}", i), format_text("25.11.{}.2", i), path);
    }
    machine.default_route("eth0");
    const auto choice = choose_fabric(machine.read(), {});
    EXPECT_EQ(choice.nccl_ib_hca(), "=mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1,mlx5_8:1");
    EXPECT_EQ(choice.common_gid_index, 3U);
    EXPECT_TRUE(choice.warnings.empty());
}

TEST(WholeMachine, SoftRoceOnLoopback) {
    test::Machine machine;
    machine.hca({.name = "rxe0", .pci_path = ""}).port({.hca = "rxe0", .rate = "2.5 Gb/sec (1X SDR)"});
    machine.gid("rxe0", 0, "fe80::1", "RoCE v2", "lo").gid("rxe0", 1, "127.0.0.1", "RoCE v2", "lo");
    const auto choice = choose_fabric(machine.read(), {});
    EXPECT_TRUE(choice.used().empty());
    EXPECT_TRUE(warned(choice, "lo is the loopback interface"));
}

TEST(WholeMachine, AllZeroGidsInAPod) {
    test::Machine machine;
    machine.netdev({.name = "eth0"});
    machine.hca({.name = "mlx5_0", .pci_path = below_root_port("50", "53")}).port({.hca = "mlx5_0", .slots = 16});
    const auto choice = choose_fabric(machine.read(), {});
    EXPECT_TRUE(choice.used().empty());
    EXPECT_TRUE(warned(choice,
                       "mlx5_0 port 1 has no GID at all (16 slots are empty): left out; bring its interface up in "
                       "this network namespace"));
}

TEST(Rates, TheInterfaceKnowsBetterThanADefaultRate) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1", "", 10);
    auto& port = fabric.hcas[2].ports[0];
    EXPECT_EQ(reason_of(choose_fabric(fabric, {}), "mlx5_2"), "runs at 10 Gb/s, others at 200 Gb/s: left out");
    port.rate_is_default = true; // and nothing else is known
    EXPECT_EQ(reason_of(choose_fabric(fabric, {}), "mlx5_2"), "is used: RoCE, GID 3 (10.0.2.1), rate unknown");
    port.netdev_gbps = 25;
    EXPECT_EQ(reason_of(choose_fabric(fabric, {}), "mlx5_2"), "runs at 25 Gb/s, others at 200 Gb/s: left out");
}

TEST(Management, AnOvsBridgeHidesItsMember) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1");
    fabric.netdevs.back().upper = "ovs-system";
    fabric.netdevs.push_back(make_netdev("br-ex"));
    fabric.netdevs.push_back(make_netdev("ovs-system"));
    fabric.default_route_netdevs = {"br-ex"};
    EXPECT_EQ(port_of(choose_fabric(fabric, {}), "mlx5_2").rule, PortRule::Management);
    fabric.netdevs.pop_back(); // another kind of virtual interface, and no Open vSwitch
    fabric.netdevs[2].upper = "";
    EXPECT_TRUE(choose_fabric(fabric, {}).uses("mlx5_2"));
}

TEST(Management, ThePortOfAnInterfaceOnACardWithTwo) {
    Fabric fabric;
    add_roce(fabric, "mlx4_0", "eth0", "10.0.0.1");
    fabric.hcas[0].ports.push_back(make_port());
    fabric.hcas[0].ports[1].number = 2;
    add_both(fabric.hcas[0].ports[1], 0, "10.0.1.1", "eth1.7"); // no GID names eth1, only its VLAN has an address
    fabric.hcas[0].netdevs = {"eth0", "eth1", "eth1.7"};
    fabric.netdevs.push_back(make_netdev("eth1"));
    fabric.netdevs.back().port = 2;
    fabric.netdevs.push_back(make_netdev("eth1.7"));
    fabric.default_route_netdevs = {"eth1"};
    EXPECT_EQ(choose_fabric(fabric, {}).nccl_ib_hca(), "=mlx4_0:1");
}

/// A rail beside a GPU, and one without any.
Fabric rail_and_storage() {
    Fabric fabric = two_rails();
    add_gpu(fabric, pci("60", "64"));
    fabric.hcas[0].ports[0].state = "DOWN"; // storage: nobody misses it
    return fabric;
}

TEST(Warnings, ABrokenRail) {
    Fabric fabric = rail_and_storage();
    EXPECT_TRUE(choose_fabric(fabric, {}).warnings.empty());
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1", pci("70", "73"));
    fabric.hcas[2].ports[0].state = "DOWN";
    add_gpu(fabric, pci("80", "83"));
    EXPECT_FALSE(warned(choose_fabric(fabric, {}), "mlx5_2"));
    add_gpu(fabric, pci("70", "74"));
    EXPECT_TRUE(warned(choose_fabric(fabric, {}), "mlx5_2 port 1 is DOWN (LinkUp): left out; bring its link up"));
}

TEST(Warnings, NotTheUnpluggedSecondPortOfARail) {
    Fabric fabric = rail_and_storage();
    const std::string second = pci("60", "63").substr(0, pci("60", "63").size() - 1) + "1";
    add_roce(fabric, "mlx5_2", "eth2", "10.0.2.1", second).ports[0].state = "DOWN";
    EXPECT_EQ(choose_fabric(fabric, {}).nccl_ib_hca(), "=mlx5_1:1");
    EXPECT_TRUE(choose_fabric(fabric, {}).warnings.empty());
}

TEST(GidIndex, WhatNcclWouldTakeAloneAndTold) {
    Fabric fabric = two_rails();
    auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(port_of(choice, "mlx5_0").nccl_default, 3U);
    EXPECT_EQ(port_of(choice, "mlx5_0").nccl_effective, 3U);
    // 169.254 before the real address: NCCL alone takes it, one index puts it right.
    for (auto& hca : fabric.hcas) {
        hca.ports[0].gids.erase(hca.ports[0].gids.begin() + 2, hca.ports[0].gids.end());
        add_both(hca.ports[0], 2, "169.254.3.1", hca.netdevs[0]);
        add_both(hca.ports[0], 4, "10.0.0.1", hca.netdevs[0]);
    }
    choice = choose_fabric(fabric, {});
    EXPECT_EQ(port_of(choice, "mlx5_0").nccl_default, 3U);
    EXPECT_EQ(port_of(choice, "mlx5_0").nccl_effective, 5U);
    EXPECT_EQ(port_of(choice, "mlx5_0").gid_index, 5U);
}

TEST(Filters, SoftwareOnlyWhereThereIsNoHardware) {
    Fabric fabric = two_rails();
    add_roce(fabric, "rxe0", "eth1", "10.0.1.1").driver = "";
    EXPECT_EQ(choose_fabric(fabric, {}).nccl_ib_hca(), "=mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(reason_of(choose_fabric(fabric, {}), "rxe0"),
              "is software (no PCI device), and the node has hardware: left out");
    fabric.hcas.erase(fabric.hcas.begin(), fabric.hcas.begin() + 2);
    EXPECT_EQ(choose_fabric(fabric, {}).nccl_ib_hca(), "=rxe0:1");
}

TEST(Warnings, ManyPortsWithTheSameFaultAreOneLine) {
    Fabric fabric;
    for (unsigned i = 0; i < 12; ++i) {
        const std::string number = std::to_string(i);
        add_roce(fabric, "mlx5_" + number, "eth" + number, "", pci("50", std::to_string(50 + i)));
    }
    const auto choice = choose_fabric(fabric, {});
    ASSERT_EQ(choice.warnings.size(), 1U);
    EXPECT_EQ(
        choice.warnings[0],
        "mlx5_0 port 1 has only a link-local address (fe80::e42:a1ff:fe2b:3c4d), which reaches one network "
        "segment; give eth0 an IPv4 address (likewise mlx5_1 port 1, mlx5_2 port 1, mlx5_3 port 1, mlx5_4 port 1, "
        "mlx5_5 port 1, mlx5_6 port 1, mlx5_7 port 1, mlx5_8 port 1 and 3 more)");
}

TEST(Warnings, NoneOfAManagementPortWithoutAddress) {
    Fabric fabric = two_rails();
    add_roce(fabric, "mlx5_2", "eth2", "");
    EXPECT_TRUE(warned(choose_fabric(fabric, {}), "mlx5_2"));
    fabric.default_route_netdevs = {"eth2"};
    EXPECT_FALSE(warned(choose_fabric(fabric, {}), "mlx5_2"));
}

TEST(Warnings, ALinkLocalPortSaysWhatSpoiltTheBetterEntry) {
    Fabric fabric;
    auto& port = add_roce(fabric, "rxe0", "eth0", "").ports[0];
    port.gids.push_back(make_gid(300, "10.0.0.1", GidType::RoceV2, "eth0"));
    EXPECT_TRUE(warned(choose_fabric(fabric, {}),
                       "one network segment; index 300 is above 255, which verbs cannot use: remove unused addresses"));
}

TEST(Filters, WhatIsTooManyIsTakenFromAllPartsOfThePciTree) {
    Fabric fabric;
    for (unsigned i = 0; i < 40; ++i) { // five below each of eight root ports
        const std::string number = std::to_string(10 + i);
        add_roce(fabric, "mlx5_" + number, "eth" + number, "10.0." + number + ".1",
                 "/sys/devices/pci0000:00/0000:00:0" + std::to_string(i / 5) + ".0/0000:" + number + ":00.0");
    }
    const auto choice = choose_fabric(fabric, {});
    EXPECT_EQ(choice.used().size(), 32U);
    for (const unsigned last : {14U, 19U, 24U, 29U, 34U, 39U, 44U, 49U}) {
        EXPECT_EQ(port_of(choice, "mlx5_" + std::to_string(last)).rule, PortRule::TooMany) << last;
    }
}

TEST(Filters, AStateThatMakesNoSense) {
    Fabric fabric = two_rails();
    fabric.hcas[0].ports[0].state = "four";
    EXPECT_EQ(reason_of(choose_fabric(fabric, {}), "mlx5_0"), "has a state that makes no sense ('four'): left out");
}

} // namespace
} // namespace rdma_nccl
