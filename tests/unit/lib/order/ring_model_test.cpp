// SPDX-License-Identifier: Apache-2.0
// A model, not a measurement: a ring all-reduce on a network of leaf switches whose uplinks are short. In each step of
// the ring every node sends one piece to the next. A link that several pieces share takes their sum, and the step as
// long as its slowest link. Full duplex, no losses, no other jobs, uplinks shared evenly: the best case.
#include "lib/order/order.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>
#include <string>

namespace rdma_nccl {
namespace {

using Order = std::vector<std::size_t>;

struct Network {
    std::size_t leaves = 8;
    std::size_t nodes_of_leaf = 8;
    double oversubscription = 1; ///< bandwidth of a leaf's nodes over that of its uplinks
};

std::size_t leaf_of(const Network& network, std::size_t node) {
    return node % network.leaves; // names go round the leaves
}

/// Returns the time of a step, in those that a piece takes on the link of a node.
double step_of_ring(const Network& network, const Order& order) {
    std::map<std::size_t, double> up;
    std::map<std::size_t, double> down;
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto from = leaf_of(network, order[i]);
        const auto to = leaf_of(network, order[(i + 1) % order.size()]);
        if (from != to) {
            ++up[from];
            ++down[to];
        }
    }
    double longest = 1; // each node's own link carries one piece
    for (const auto& pieces : {up, down}) {
        for (const auto& [leaf, count] : pieces) {
            longest = std::max(longest, count * network.oversubscription / static_cast<double>(network.nodes_of_leaf));
        }
    }
    return longest;
}

Order order_of(const Network& network, const Order& given) {
    std::vector<std::optional<NetworkPlace>> places;
    for (const auto node : given) {
        places.push_back(NetworkPlace{{"spine", "l" + std::to_string(leaf_of(network, node))}});
    }
    Order order;
    for (const auto position : order_by_place(places).order) {
        order.push_back(given[position]);
    }
    return order;
}

Order by_name(const Network& network) {
    Order order(network.leaves * network.nodes_of_leaf);
    std::iota(order.begin(), order.end(), std::size_t{0});
    return order;
}

TEST(RingModel, NamesThatGoRoundTheLeavesCostWhatUplinksAreShort) {
    for (const double oversubscription : {1.0, 2.0, 4.0, 8.0}) {
        const Network network{.oversubscription = oversubscription};
        const auto given = by_name(network);
        EXPECT_EQ(step_of_ring(network, given), oversubscription) << "all pieces of a leaf go up";
        EXPECT_EQ(step_of_ring(network, order_of(network, given)), 1) << "one piece of a leaf goes up";
    }
}

TEST(RingModel, AnyOrderOfNodesBecomesAsFastAsTheirOwnLinks) {
    std::mt19937 random(23); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in each run
    const Network network{.oversubscription = 4};
    double worst = 0;
    for (int round = 0; round < 200; ++round) {
        auto given = by_name(network);
        std::ranges::shuffle(given, random);
        worst = std::max(worst, step_of_ring(network, given));
        EXPECT_GE(step_of_ring(network, given), 3.5) << "7 of 8 pieces of some leaf";
        EXPECT_EQ(step_of_ring(network, order_of(network, given)), 1);
    }
    EXPECT_EQ(worst, 4);
}

} // namespace
} // namespace rdma_nccl
