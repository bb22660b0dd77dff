// SPDX-License-Identifier: Apache-2.0
#include "lib/order/order.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace rdma_nccl {
namespace {

using Places = std::vector<std::optional<NetworkPlace>>;
using Order = std::vector<std::size_t>;
using Groups = std::vector<std::string>;

std::optional<NetworkPlace> at(const std::string& path) {
    return parse_place(path + ".n1", path.find('.') == std::string::npos ? "block.node" : "switch.switch.node");
}
Order as_given(std::size_t count) {
    Order order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
}

TEST(NetworkPlace, IsWhatSlurmSays) {
    EXPECT_EQ(parse_place("spine.leaf1.n07", "switch.switch.node")->groups, (Groups{"spine", "leaf1"}));
    EXPECT_EQ(parse_place("b3.n07", "block.node")->groups, Groups{"b3"});
    EXPECT_EQ(parse_place("s[0-1].leaf[2,4].n07", "switch.switch.node")->groups, (Groups{"s[0-1]", "leaf[2,4]"}));
    EXPECT_EQ(parse_place(".leaf1.n07", "switch.switch.node")->groups, (Groups{"", "leaf1"}));
    EXPECT_EQ(parse_place("b3.n07.example.org", "block.node")->groups, Groups{"b3"});
}

TEST(NetworkPlace, IsNotKnownWhereSlurmSaysNothingThatFits) {
    for (const auto& [address, pattern] :
         {std::pair("n07", "node"), std::pair("", ""), std::pair("n07", "block.node"), std::pair("b1.", "block.node"),
          std::pair(".n07", "block.node"), std::pair("s.l.n07", "switch.rack.node"),
          std::pair("s.l.n07", "switch.switch"), std::pair("leaf.n07", "switch.switch.node")}) {
        EXPECT_FALSE(parse_place(address, pattern)) << address << " " << pattern;
    }
}

TEST(NetworkOrder, PutsAGroupTogetherAndKeepsTheFirstNode) {
    const Places places{at("b2"), at("b1"), at("b2"), at("b1"), at("b3")};
    EXPECT_EQ(order_by_place(places), (Order{0, 2, 1, 3, 4}));
    EXPECT_EQ(count_crossings(places, as_given(5)), 5U);
    EXPECT_EQ(count_crossings(places, order_by_place(places)), 3U);
}

TEST(NetworkOrder, GoesByAllDepthsOfATree) {
    const Places places{at("s1.l1"), at("s2.l3"), at("s1.l2"), at("s2.l4"), at("s1.l1"), at("s2.l3"), at("s1.l2")};
    EXPECT_EQ(order_by_place(places), (Order{0, 4, 2, 6, 1, 5, 3}));
}

TEST(NetworkOrder, LeavesOfOneNameBelowOtherSwitchesAreDifferent) {
    const Places places{at("s1.l"), at("s2.l"), at("s1.l")};
    EXPECT_EQ(order_by_place(places), (Order{0, 2, 1}));
    EXPECT_EQ(count_crossings(places, as_given(3)), 2U);
    const Places elsewhere_first{at("s1.x"), at("s2.l"), at("s1.k"), at("s1.l")};
    EXPECT_EQ(order_by_place(elsewhere_first), (Order{0, 2, 3, 1}));
}

TEST(NetworkOrder, NodesWithoutAPlaceAreAGroup) {
    const Places places{std::nullopt, at("b1"), std::nullopt, at("b1")};
    EXPECT_EQ(order_by_place(places), (Order{0, 2, 1, 3}));
    EXPECT_EQ(order_by_place(Places(3)), as_given(3));
    EXPECT_EQ(order_by_place(Places{}), Order{});
    EXPECT_EQ(count_crossings(Places(1), as_given(1)), 0U);
}

/// Whatever the network, all nodes are there once, the first is the first, and a ring crosses as often as there are
/// groups, which is the least, or not at all if there is one.
TEST(NetworkOrder, CrossesAsSeldomAsCanBe) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        Places places;
        std::vector<std::string> leaves;
        const auto count = 1 + random() % 64;
        for (unsigned i = 0; i < count; ++i) {
            leaves.push_back("s" + std::to_string(random() % 3) + ".l" + std::to_string(random() % 5));
            places.push_back(at(leaves.back()));
        }
        const auto order = order_by_place(places);
        auto sorted = order;
        std::ranges::sort(sorted);
        EXPECT_EQ(sorted, as_given(count));
        EXPECT_EQ(order.front(), 0U);
        std::ranges::sort(leaves);
        const auto groups = static_cast<std::size_t>(std::ranges::unique(leaves).begin() - leaves.begin());
        EXPECT_EQ(count_crossings(places, order), groups == 1 ? 0 : groups);
        EXPECT_LE(count_crossings(places, order), count_crossings(places, as_given(count)));
    }
}

} // namespace
} // namespace rdma_nccl
