// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/placement.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace rdma_nccl {
namespace {

using Costs = std::vector<std::vector<unsigned>>;
using Order = std::vector<std::size_t>;

unsigned sum_of(const Costs& costs, const Order& order) {
    unsigned sum = 0;
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
        sum += costs[rank][order[rank]];
    }
    return sum;
}

std::size_t count_kept(const Costs& costs, const Order& order) {
    std::size_t kept = 0;
    for (std::size_t rank = 0; rank < costs.size(); ++rank) {
        kept += static_cast<std::size_t>(order[rank] == rank);
    }
    return kept;
}

/// The least sum, and the most ranks that keep their GPU with it, by trying all.
std::pair<unsigned, std::size_t> best_of_all(const Costs& costs) {
    Order order(costs.front().size());
    std::iota(order.begin(), order.end(), 0);
    std::pair best(std::numeric_limits<unsigned>::max(), std::size_t{0});
    do {
        const unsigned sum = sum_of(costs, order);
        const std::size_t kept = count_kept(costs, order);
        if (sum < best.first || (sum == best.first && kept > best.second)) {
            best = {sum, kept};
        }
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
}

TEST(GpuOrder, IsTheLeastSumAndChangesNoMoreThanItMust) {
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        const std::size_t ranks = 1 + random() % 6;
        const std::size_t gpus = std::min<std::size_t>(ranks + random() % 3, 7);
        const unsigned most = round % 2 == 0 ? 3 : 50; // few values: many ties
        Costs costs(ranks, std::vector<unsigned>(gpus));
        for (auto& row : costs) {
            std::generate(row.begin(), row.end(), [&] { return static_cast<unsigned>(random()) % most; });
        }
        const Order order = assign_gpus(costs);
        ASSERT_EQ(order.size(), ranks);
        EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), ranks) << "round " << round;
        EXPECT_LT(*std::max_element(order.begin(), order.end()), gpus);
        const auto [sum, kept] = best_of_all(costs);
        EXPECT_EQ(sum_of(costs, order), sum) << "round " << round;
        EXPECT_EQ(count_kept(costs, order), kept) << "round " << round;
    }
}

TEST(GpuOrder, StaysWhereAllCostTheSame) {
    for (const unsigned cost : {0U, 6U}) {
        EXPECT_EQ(assign_gpus(Costs(4, std::vector<unsigned>(6, cost))), (Order{0, 1, 2, 3}));
    }
}

TEST(GpuOrder, CrossesOverWhereTheSocketsAreSwapped) {
    EXPECT_EQ(assign_gpus({{6, 4}, {4, 6}}), (Order{1, 0}));
}

TEST(GpuOrder, OfNobodyIsEmpty) {
    EXPECT_TRUE(assign_gpus({}).empty());
}

TEST(GpuOrder, StandsTheGreatestCosts) {
    constexpr unsigned most = std::numeric_limits<unsigned>::max();
    EXPECT_EQ(assign_gpus({{most, 0}, {0, most}}), (Order{1, 0}));
    EXPECT_EQ(assign_gpus({{most, most}, {most, most}}), (Order{0, 1}));
}

} // namespace
} // namespace rdma_nccl
