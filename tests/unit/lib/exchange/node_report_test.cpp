// SPDX-License-Identifier: Apache-2.0
// What a node tells the others of itself; its bridges above all.
#include "lib/exchange/messages.h"

#include "lib/fabric/readers.h"
#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "tests/unit/exchange_nodes.h"
#include "tests/unit/fabric_machine.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using test::below_root_port;
using test::ip;
using test::Machine;
using Texts = std::vector<std::string>;

/// "eth0 10.0.0.1/24", with a star behind those of the fabric.
Texts addresses(const NodeReport& report) {
    Texts texts;
    for (const auto& entry : report.addresses) {
        texts.push_back(entry.netdev + " " + entry.address.address.text() + "/" +
                        std::to_string(entry.address.prefix_length) + (entry.fabric ? " *" : ""));
    }
    return texts;
}

Netdev netdev(std::string name, bool bridge, std::vector<std::string> lowers, std::optional<unsigned> port = {}) {
    Netdev netdev;
    netdev.name = std::move(name);
    netdev.bridge = bridge;
    netdev.lowers = std::move(lowers);
    netdev.port = port;
    return netdev;
}

TEST(HostBridge, OneOfContainersStandsOnNoHardware) {
    const std::vector<Netdev> netdevs = {
        netdev("eth0", false, {}, 1),       netdev("eth1", false, {}, 1),        netdev("veth1", false, {}),
        netdev("docker0", true, {"veth1"}), netdev("virbr0", true, {}),          netdev("br0", true, {"eth0", "veth1"}),
        netdev("bond0", false, {"eth1"}),   netdev("bond0.7", false, {"bond0"}), netdev("br7", true, {"bond0.7"}),
        netdev("br-gone", true, {"gone0"}), netdev("veth0", false, {"veth1"})};
    for (const auto* const name : {"docker0", "virbr0", "br-gone"}) {
        EXPECT_TRUE(is_virtual_bridge(netdevs, name)) << name;
    }
    for (const auto* const name : {"br0", "br7", "eth0", "bond0", "veth0", "veth1", "nobody", ""}) {
        EXPECT_FALSE(is_virtual_bridge(netdevs, name)) << name;
    }
}

TEST(HostBridge, ACircleHasAnEnd) {
    const std::vector<Netdev> netdevs = {netdev("br0", true, {"br1", "br0"}), netdev("br1", true, {"br0", "br1"})};
    EXPECT_TRUE(is_virtual_bridge(netdevs, "br0"));
}

TEST(HostBridge, IsReadFromSysfs) {
    Machine machine;
    machine.netdev({.name = "eth0", .pci_path = below_root_port("50", "53"), .upper = "br0"});
    machine.netdev({.name = "br0", .lowers = {"eth0"}, .bridge = true});
    machine.netdev({.name = "docker0", .lowers = {"veth1"}, .bridge = true}).netdev({.name = "veth1"});
    const auto fabric = machine.read();
    EXPECT_TRUE(fabric.find_netdev("docker0")->bridge);
    EXPECT_TRUE(fabric.find_netdev("br0")->bridge);
    EXPECT_FALSE(fabric.find_netdev("eth0")->bridge);
    EXPECT_TRUE(is_virtual_bridge(fabric.netdevs, "docker0"));
    EXPECT_FALSE(is_virtual_bridge(fabric.netdevs, "br0"));
}

// Every host has docker0 with the same address; a bridge with hardware below has the host's own.
TEST(ExchangeReport, AddressesOfContainerBridgesAreLeftOut) {
    Machine machine;
    machine.netdev({.name = "eth0", .pci_path = below_root_port("50", "53"), .upper = "br0"});
    machine.netdev({.name = "br0", .lowers = {"eth0"}, .bridge = true}).address("br0", "10.0.0.5/24");
    machine.netdev({.name = "docker0", .bridge = true}).address("docker0", "172.17.0.1/16");
    machine.netdev({.name = "dummy0"}).address("dummy0", "10.9.0.5/24").address("dummy0", "fd00::5/64");
    NodeFacts facts;
    facts.fabric = machine.read();
    const auto report = make_report(facts, Plan(), "n01");
    EXPECT_EQ(report.node, "n01");
    EXPECT_EQ(addresses(report), (Texts{"br0 10.0.0.5/24", "dummy0 10.9.0.5/24", "dummy0 fd00::5/64"}));
}

TEST(ExchangeReport, OnlyAddressesThatOthersMayReach) {
    Machine machine;
    machine.netdev({.name = "eth0"}).address("eth0", "10.0.0.5/24").address("eth0", "fe80::5/64");
    machine.netdev({.name = "eth1", .flags = "0x1002", .carrier = "0", .operstate = "down"});
    machine.address("eth1", "10.1.0.5/24").address("lo", "127.0.0.1/8", false);
    NodeFacts facts;
    facts.fabric = machine.read();
    ASSERT_EQ(facts.fabric.find_netdev("eth1")->addresses.size(), 1U);
    EXPECT_EQ(addresses(make_report(facts, Plan(), "n01")), (Texts{"eth0 10.0.0.5/24"}));
}

TEST(ExchangeReport, TheInterfaceOfAPortInUseIsOfTheFabric) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.5", below_root_port("50", "53"));
    machine.address("eth0", "10.0.0.5/24").netdev({.name = "eth1"}).address("eth1", "10.1.0.5/24");
    NodeFacts facts;
    facts.fabric = machine.read();
    Plan plan;
    PortChoice choice;
    choice.hca = "mlx5_0";
    choice.port = 1;
    choice.link_layer = LinkLayer::Ethernet;
    choice.gid_index = 3;
    plan.fabric.ports.push_back(choice);
    const auto report = make_report(facts, plan, "n01");
    EXPECT_EQ(addresses(report), (Texts{"eth0 10.0.0.5/24 *", "eth1 10.1.0.5/24"}));
    ASSERT_EQ(report.ports.size(), 1U);
    EXPECT_EQ(report.ports[0].address, ip("10.0.0.5", 24));
    EXPECT_EQ(report.ports[0].roce, RoceVersion::V2);
    EXPECT_EQ(report.ports[0].mtu, 9000U);
    EXPECT_EQ(report.hcas, 1U);
    EXPECT_EQ(report.active_ports, 1U);
}

TEST(ExchangeReport, PortsAreInTheOrderOfPciAddresses) {
    Machine machine;
    machine.connectx("mlx5_0", "eth0", "10.0.0.5", below_root_port("90", "93"));
    machine.connectx("mlx5_1", "eth1", "10.1.0.5", below_root_port("50", "53"));
    NodeFacts facts;
    facts.fabric = machine.read();
    Plan plan;
    for (const auto* const name : {"mlx5_0", "mlx5_1"}) {
        PortChoice choice;
        choice.hca = name;
        choice.port = 1;
        plan.fabric.ports.push_back(choice);
    }
    const auto ports = make_report(facts, plan, "n01").ports;
    ASSERT_EQ(ports.size(), 2U);
    EXPECT_EQ(ports[0].hca, "mlx5_1");
    EXPECT_EQ(ports[1].hca, "mlx5_0");
}

TEST(ExchangeReport, SaysWhatFailoverItsTasksGet) {
    NodeFacts facts;
    EXPECT_EQ(make_report(facts, make_plan(facts, {}), "n01").failover, "0");
    Settings settings;
    settings.failover = true;
    EXPECT_EQ(make_report(facts, make_plan(facts, settings), "n01").failover, "1");
    facts.nccl_conf["NCCL_IB_RESILIENCY_PORT_FAILOVER"] = {"2", "/etc/nccl.conf"};
    EXPECT_EQ(make_report(facts, make_plan(facts, settings), "n01").failover, "2");
    EXPECT_EQ(make_report(facts, make_plan(facts, {}), "n01").failover, "2") << "also without failover=on";
    for (const auto* const text : {"1 ", " 0x1", "01", "+1"}) {
        facts.nccl_conf["NCCL_IB_RESILIENCY_PORT_FAILOVER"] = {text, "/etc/nccl.conf"};
        EXPECT_EQ(make_report(facts, make_plan(facts, {}), "n01").failover, "1") << text << " is 1 for NCCL";
    }
    facts.nccl_conf.clear();
    facts.environment.set("NCCL_IB_RESILIENCY_PORT_FAILOVER", "");
    EXPECT_EQ(make_report(facts, make_plan(facts, settings), "n01").failover, "0");
}

TEST(ExchangeReport, SaysWhereTheNodeIsInTheNetwork) {
    NodeFacts facts;
    facts.environment =
        Environment(Texts{"SLURM_TOPOLOGY_ADDR=s1.l2.n01", "SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node"});
    const auto report = make_report(facts, Plan(), "n01");
    EXPECT_EQ(report.topology_address, "s1.l2.n01");
    EXPECT_EQ(report.topology_pattern, "switch.switch.node");
    EXPECT_EQ(report.keeps_order, "");
}

TEST(ExchangeReport, SaysWhatItsFabricProfileSets) {
    Plan plan;
    EXPECT_EQ(make_report(NodeFacts(), plan, "n01").fabric_profile, no_fabric_profile_values);
    plan.fabric_profile =
        PlannedFabricProfile{"a.conf", "", "", {{{"NCCL_IB_TC", "41", "", ""}, FabricProfileUse::Withheld, ""}}};
    EXPECT_TRUE(make_report(NodeFacts(), plan, "n01").fabric_profile.starts_with("1 value of a.conf:"));
}

TEST(ExchangeReport, SaysWhyItsTasksKeepSlurmsRanks) {
    const auto report = [](const Texts& environment) {
        NodeFacts facts;
        facts.environment = Environment(environment);
        return make_report(facts, Plan(), "n01");
    };
    EXPECT_EQ(report({"RANK=3"}).keeps_order, "RANK was set before: unset it");
    EXPECT_EQ(report({"SLURM_MPI_TYPE=pmix"}).mpi, "pmix");
    EXPECT_EQ(report({"SLURM_MPI_TYPE=pmix"}).keeps_order, "") << "that is up to the layout of all";
    EXPECT_EQ(report({"SLURM_MPI_TYPE=none"}).mpi, "");
    NodeFacts facts;
    facts.step.distribution = "cyclic";
    EXPECT_EQ(make_report(facts, Plan(), "n01").keeps_order, "") << "srun's own choice for one task per node";
    facts.step.distribution = "arbitrary";
    EXPECT_EQ(make_report(facts, Plan(), "n01").keeps_order, "--distribution=arbitrary was asked for");
    facts.step.heterogeneous = true;
    EXPECT_EQ(make_report(facts, Plan(), "n01").keeps_order, "the step is heterogeneous");
}

} // namespace
} // namespace rdma_nccl
