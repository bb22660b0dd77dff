// SPDX-License-Identifier: Apache-2.0
// Every rule is produced once, by the smallest fabric that calls for it. A new rule without a case here is a failure.
#include "lib/select/rules.h"

#include "lib/select/port_selection.h"
#include "tests/unit/fabric_values.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace rdma_nccl {
namespace {

using test::add_both;
using test::add_gpu;
using test::add_infiniband;
using test::add_roce;
using test::make_gid;
using test::make_netdev;
using test::port_of;

/// A node with two good ports, a case changes it: the first port is the one that the rule is about.
struct Node {
    Fabric fabric;
    Settings settings;
    std::vector<std::string> isolated; ///< as the other nodes of a step have it

    Node() {
        add_roce(fabric, "mlx5_0", "eth0", "10.0.0.1");
        add_roce(fabric, "mlx5_1", "eth1", "10.0.1.1");
    }
    Hca& hca() { return fabric.hcas[0]; }
    Port& port() { return hca().ports[0]; }
    Netdev& netdev() { return fabric.netdevs[0]; }
    /// The table of the port becomes this one entry, at index 0.
    void only_gid(const std::string& address, std::optional<GidType> type = GidType::RoceV2) {
        port().gids = {make_gid(0, address, type, "eth0")};
    }
};

template<typename Rule>
struct Case {
    Rule rule;
    void (*change)(Node&);
    unsigned index = 0; ///< of the entry that a GidRule is about
};

const Case<PortRule> port_cases[] = {
    {PortRule::Used, [](Node&) {}},
    {PortRule::NotNamed,
     [](Node& node) {
         node.settings.hca.items = {{"mlx5_1", {}}};
     }},
    {PortRule::Excluded,
     [](Node& node) {
         node.settings.hca.items = {{"mlx5_0", {}}};
         node.settings.hca.exclude = true;
     }},
    {PortRule::Iwarp, [](Node& node) { node.hca().node_type = "RNIC"; }},
    {PortRule::Efa, [](Node& node) { node.hca().driver = "efa"; }},
    {PortRule::NodeType, [](Node& node) { node.hca().node_type = "switch"; }},
    {PortRule::LinkLayer, [](Node& node) { node.port().link_layer = LinkLayer::Unknown; }},
    {PortRule::NoDeviceFile, [](Node& node) { node.hca().device_access = DeviceAccess::Missing; }},
    {PortRule::TooSlowToRead,
     [](Node& node) {
         node.hca().answers = false;
         node.port().state.clear();
     }},
    {PortRule::StateUnreadable, [](Node& node) { node.port().state.clear(); }},
    {PortRule::NotActive, [](Node& node) { node.port().state = "DOWN"; }},
    {PortRule::NoSubnetManager,
     [](Node& node) {
         node.port().link_layer = LinkLayer::InfiniBand;
         node.port().state = "INIT";
     }},
    {PortRule::NoGidTable,
     [](Node& node) {
         node.port().gids.clear();
         node.port().gid_table_length = 0;
     }},
    {PortRule::NoGid, [](Node& node) { node.port().gids.clear(); }},
    {PortRule::NoUsableGid, [](Node& node) { node.netdev().up = false; }},
    {PortRule::NoSuchGid, [](Node& node) { node.settings.gid = 7; }},
    {PortRule::OutsidePrefix, [](Node& node) { node.settings.prefix = IpPrefix::parse("10.0.1.0/24"); }},
    {PortRule::VirtualFunction,
     [](Node& node) {
         node.hca().physical_function = "0000:53:00.0";
         node.fabric.hcas[1].pci = "0000:53:00.0";
     }},
    {PortRule::BondSlave,
     [](Node& node) {
         node.fabric.netdevs.push_back(make_netdev("bond0"));
         node.netdev().upper = "bond0";
         node.fabric.netdevs[1].upper = "bond0";
         auto& bond = node.fabric.hcas[1];
         bond.netdevs = {"eth1", "bond0"};
         bond.ports[0].gids.clear();
         add_both(bond.ports[0], 0, "10.0.1.1", "bond0");
     }},
    {PortRule::Software,
     [](Node& node) {
         node.hca().pci.clear();
         node.hca().driver.clear();
         node.fabric.hcas[1].pci = "0000:53:00.0";
     }},
    {PortRule::OtherLinkLayer, [](Node& node) { add_infiniband(node.fabric, "mlx5_2", "", 800); }},
    {PortRule::LinkLocal, [](Node& node) { node.port().gids.resize(2); }},
    {PortRule::Slower, [](Node& node) { node.port().rate_gbps = 25; }},
    {PortRule::Faster,
     [](Node& node) {
         node.fabric.hcas[1].pci_path = "/sys/devices/pci0000:50/0000:50:01.0/0000:53:00.0";
         add_gpu(node.fabric, "/sys/devices/pci0000:50/0000:50:01.0/0000:54:00.0");
         node.port().rate_gbps = 800;
     }},
    {PortRule::NoNeighbour, [](Node& node) { node.isolated = {"mlx5_0:1"}; }},
    {PortRule::Management, [](Node& node) { node.fabric.default_route_netdevs = {"eth0"}; }},
    {PortRule::TooMany,
     [](Node& node) {
         for (int i = 2; i < 33; ++i) {
             const auto number = std::to_string(i);
             add_roce(node.fabric, "mlx5_" + number, "eth" + number, "10.0." + number + ".1");
         }
         std::rotate(node.fabric.hcas.begin(), node.fabric.hcas.begin() + 1, node.fabric.hcas.end());
     }},
};

const Case<GidRule> gid_cases[] = {
    {GidRule::Used, [](Node&) {}, 3},
    {GidRule::PortLeftOut, [](Node& node) { node.port().state = "DOWN"; }, 3},
    {GidRule::InfiniBand, [](Node& node) { node.port().link_layer = LinkLayer::InfiniBand; }, 0},
    {GidRule::NotForced, [](Node& node) { node.settings.gid = 2; }, 3},
    {GidRule::NotUnicast, [](Node& node) { node.only_gid("ff02::1"); }},
    {GidRule::WrongVersion, [](Node&) {}, 2},
    {GidRule::TypeUnknown, [](Node& node) { node.only_gid("10.0.0.1", std::nullopt); }},
    {GidRule::NetdevUnknown, [](Node& node) { node.netdev().name = "eth9"; }, 3},
    {GidRule::Loopback, [](Node& node) { node.netdev().loopback = true; }, 3},
    {GidRule::NetdevDown, [](Node& node) { node.netdev().up = false; }, 3},
    {GidRule::WrongFamily, [](Node& node) { node.settings.family = FamilyChoice::Ipv6; }, 3},
    {GidRule::IndexTooHigh, [](Node& node) { node.port().gids[3].index = 256; }, 256},
    {GidRule::LessPreferred, [](Node&) {}, 1},
    {GidRule::Stacked,
     [](Node& node) {
         node.fabric.netdevs.push_back(make_netdev("eth0.100"));
         node.fabric.netdevs.back().lowers = {"eth0"};
         add_both(node.port(), 4, "10.0.2.1", "eth0.100");
     },
     5},
    {GidRule::Later, [](Node& node) { add_both(node.port(), 4, "10.0.2.1", "eth0"); }, 5},
};

/// The case of `rule`, or a failure.
template<typename Rule>
const Case<Rule>* find_case(std::span<const Case<Rule>> cases, Rule rule) {
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&](const Case<Rule>& one) { return one.rule == rule; });
    EXPECT_NE(found, cases.end()) << "no case for the rule " << rule_name(rule);
    return found == cases.end() ? nullptr : &*found;
}

template<typename Rule>
PortChoice decide(const Case<Rule>& one) {
    Node node;
    one.change(node);
    return port_of(choose_fabric(node.fabric, node.settings, node.isolated), "mlx5_0");
}

TEST(FabricRule, EveryPortRuleIsReached) {
    for (std::size_t i = 0; i < port_rule_names.size(); ++i) {
        const auto rule = static_cast<PortRule>(i);
        if (const auto* const one = find_case<PortRule>(port_cases, rule)) {
            const auto choice = decide(*one);
            EXPECT_EQ(rule_name(choice.rule), rule_name(rule)) << choice.reason;
            EXPECT_EQ(choice.used(), rule == PortRule::Used) << rule_name(rule);
            EXPECT_EQ(choice.reason.find("left out") == std::string::npos, choice.used()) << choice.reason;
        }
    }
}

TEST(FabricRule, EveryGidRuleIsReached) {
    for (std::size_t i = 0; i < gid_rule_names.size(); ++i) {
        const auto rule = static_cast<GidRule>(i);
        if (const auto* const one = find_case<GidRule>(gid_cases, rule)) {
            const auto choice = decide(*one);
            const auto verdict = std::find_if(choice.gids.begin(), choice.gids.end(),
                                              [&](const GidVerdict& each) { return each.index == one->index; });
            ASSERT_NE(verdict, choice.gids.end()) << rule_name(rule);
            EXPECT_EQ(rule_name(verdict->rule), rule_name(rule)) << verdict->reason;
            EXPECT_EQ(verdict->used(), rule == GidRule::Used) << rule_name(rule);
            EXPECT_FALSE(verdict->reason.empty()) << rule_name(rule);
        }
    }
}

void expect_stable_words(std::span<const std::string_view> names) {
    std::set<std::string_view> seen;
    for (const auto name : names) {
        EXPECT_TRUE(seen.insert(name).second) << name << " stands for two rules";
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string_view::npos) << name;
    }
}

TEST(FabricRule, NamesAreWordsOfTheirOwn) {
    expect_stable_words(port_rule_names);
    expect_stable_words(gid_rule_names);
}

} // namespace
} // namespace rdma_nccl
