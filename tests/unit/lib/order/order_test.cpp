// SPDX-License-Identifier: Apache-2.0
#include "lib/order/order.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <set>
#include <string>

namespace rdma_nccl {
namespace {

using Places = std::vector<std::optional<NetworkPlace>>;
using Order = std::vector<std::size_t>;
using Groups = std::vector<std::string>;

/// "b1": a block; "s1.l1", "core.s1.l1": switches.
std::optional<NetworkPlace> at(const std::string& path) {
    std::string pattern = "block.";
    if (const auto outer = std::ranges::count(path, '.'); outer > 0) {
        pattern = "switch.";
        for (auto i = outer; i > 0; --i) {
            pattern += "switch.";
        }
    }
    return parse_place(path + ".n1", pattern + "node", "n1");
}
Order as_given(std::size_t count) {
    Order order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
}

TEST(NetworkPlace, IsWhatSlurmSays) {
    EXPECT_EQ(parse_place("spine.leaf1.n07", "switch.switch.node", "n07")->groups, (Groups{"spine", "leaf1"}));
    EXPECT_EQ(parse_place("b3.n07", "block.node", "n07")->groups, Groups{"b3"});
    EXPECT_EQ(parse_place("s[0-1].leaf[2,4].n07", "switch.switch.node", "n07")->groups,
              (Groups{"s[0-1]", "leaf[2,4]"}));
    EXPECT_EQ(parse_place("core.s1.l1.n1", "switch.switch.switch.node", "n1").value().groups,
              (Groups{"core", "s1", "l1"}));
    EXPECT_EQ(parse_place("c[1-2].s[0-1].l3.r[2,4].n07", "switch.switch.switch.switch.node", "n07").value().groups,
              (Groups{"c[1-2]", "s[0-1]", "l3", "r[2,4]"}));
    EXPECT_EQ(parse_place(".leaf1.n07", "switch.switch.node", "n07")->groups, (Groups{"", "leaf1"}));
    EXPECT_EQ(parse_place("b3.n07.example.org", "block.node", "n07.example.org")->groups, Groups{"b3"});
}

TEST(NetworkPlace, IsNotKnownWhereSlurmSaysNothingThatFits) {
    for (const auto& [address, pattern] :
         {std::pair("n07", "node"), std::pair("", ""), std::pair("n07", "block.node"), std::pair("b1.", "block.node"),
          std::pair(".n07", "block.node"), std::pair("s.l.n07", "switch.rack.node"),
          std::pair("s.l.n07", "switch.switch"), std::pair("leaf.n07", "switch.switch.node"),
          std::pair("core.x.leaf.a.n07", "switch.switch.node"), std::pair("b1.n08", "block.node")}) {
        EXPECT_FALSE(parse_place(address, pattern, "n07")) << address << " " << pattern;
    }
}

TEST(NetworkOrder, PutsAGroupTogetherAndKeepsTheFirstNode) {
    const Places places{at("b2"), at("b1"), at("b2"), at("b1"), at("b3")};
    const auto [order, before, after] = order_by_place(places);
    EXPECT_EQ(order, (Order{0, 2, 1, 3, 4}));
    EXPECT_EQ(before, Crossings{5});
    EXPECT_EQ(after, Crossings{3});
}

TEST(NetworkOrder, KeepsSegmentsTogether) {
    // Of two nodes each (sbatch --segment=2): b1 has two of them.
    for (const auto& places : {Places{at("b1"), at("b2"), at("b1"), at("b3"), at("b1"), at("b2"), at("b3"), at("b1")},
                               Places{at("b1"), at("b2"), at("b2"), at("b1")}}) {
        const auto order = order_by_place(places).order;
        for (std::size_t first = 0; first < order.size(); first += 2) {
            EXPECT_EQ(places[order[first]], places[order[first + 1]]) << first;
        }
    }
}

TEST(NetworkOrder, StaysWhereAllGroupsAreTogether) {
    const auto blocks = order_by_place(Places{at("b2"), at("b2"), at("b1"), at("b1")});
    EXPECT_FALSE(blocks.changes());
    EXPECT_EQ(blocks.order, as_given(4));
    const auto ring = order_by_place(Places{at("b1"), at("b2"), at("b2"), at("b1")});
    EXPECT_TRUE(ring.changes());
    EXPECT_EQ(ring.order, (Order{0, 3, 1, 2}));
    EXPECT_EQ(ring.before, ring.after);
    EXPECT_EQ(gain_text(ring), "the nodes of each switch or block are now in one row");
    const auto spines = order_by_place(Places{at("s1.l1"), at("s2.l2"), at("s1.l3"), at("s2.l4")});
    EXPECT_TRUE(spines.changes()) << "at one depth is enough";
    EXPECT_EQ(spines.order, (Order{0, 2, 1, 3}));
    EXPECT_EQ(spines.before, (Crossings{4, 4}));
    EXPECT_EQ(spines.after, (Crossings{2, 4}));
}

TEST(NetworkOrder, GoesByAllDepthsOfATree) {
    const Places places{at("s1.l1"), at("s2.l3"), at("s1.l2"), at("s2.l4"), at("s1.l1"), at("s2.l3"), at("s1.l2")};
    EXPECT_EQ(order_by_place(places).order, (Order{0, 4, 2, 6, 1, 5, 3}));
    const auto deep = order_by_place(Places{at("c.s1.l1"), at("c.s2.l3"), at("c.s1.l2"), at("c.s1.l1")});
    EXPECT_EQ(deep.order, (Order{0, 3, 2, 1}));
    EXPECT_EQ(deep.before, (Crossings{0, 2, 3}));
    EXPECT_EQ(deep.after, (Crossings{0, 2, 3}));
}

TEST(NetworkOrder, LeavesOfOneNameBelowOtherSwitchesAreDifferent) {
    const Places places{at("s1.l"), at("s2.l"), at("s1.l"), at("s2.l")};
    EXPECT_EQ(order_by_place(places).order, (Order{0, 2, 1, 3}));
    EXPECT_EQ(order_by_place(places).before, (Crossings{4, 4}));
    const Places elsewhere_first{at("s1.x"), at("s2.l"), at("s1.k"), at("s2.k"), at("s1.l")};
    EXPECT_EQ(order_by_place(elsewhere_first).order, (Order{0, 2, 4, 1, 3}));
}

TEST(NetworkOrder, NodesWithoutAPlaceAreAGroup) {
    const Places places{std::nullopt, at("b1"), std::nullopt, at("b1")};
    EXPECT_EQ(order_by_place(places).order, (Order{0, 2, 1, 3}));
    EXPECT_EQ(order_by_place(Places(3)).order, as_given(3));
    EXPECT_EQ(order_by_place(Places{}).order, Order{});
    EXPECT_EQ(order_by_place(Places{at("b1")}).before, Crossings{0});
}

/// Whatever the network, all nodes are there once, the first is the first, and at each depth a ring crosses as often as
/// there are groups, which is the least, or not at all if there is one. That order stays.
TEST(NetworkOrder, CrossesAsSeldomAsCanBe) {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        Places places;
        std::set<std::string> cores;
        std::set<std::string> spines;
        std::set<std::string> leaves;
        const auto count = 1 + random() % (round % 2 == 0 ? 5 : 64);
        for (unsigned i = 0; i < count; ++i) {
            const auto core = "c" + std::to_string(random() % 2);
            const auto spine = core + ".s" + std::to_string(random() % 3);
            const auto leaf = spine + ".l" + std::to_string(random() % 3);
            cores.insert(core);
            spines.insert(spine);
            leaves.insert(leaf);
            places.push_back(at(leaf));
        }
        const auto result = order_by_place(places);
        const auto& [order, before, after] = result;
        auto sorted = order;
        std::ranges::sort(sorted);
        EXPECT_EQ(sorted, as_given(count));
        EXPECT_EQ(order.front(), 0U);
        const auto least = [](const auto& groups) { return groups.size() == 1 ? 0 : groups.size(); };
        EXPECT_EQ(after, (Crossings{least(cores), least(spines), least(leaves)}));
        EXPECT_EQ(result.changes(), order != as_given(count));
        if (before == after && result.changes()) { // of such a group the ring had been whole alone
            EXPECT_EQ(places.front()->groups.front(), places.back()->groups.front());
        }
        Places ordered;
        for (const auto node : order) {
            ordered.push_back(places[node]);
        }
        EXPECT_EQ(order_by_place(ordered).before, after);
        EXPECT_FALSE(order_by_place(ordered).changes());
    }
}

} // namespace
} // namespace rdma_nccl
