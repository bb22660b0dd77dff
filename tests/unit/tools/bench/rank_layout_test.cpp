// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/bench/rank_layout.h"
#include "tools/bench/ring/ring.h"

#include <gtest/gtest.h>

namespace rdma_nccl::bench {

namespace {

/// A process for each node.
std::vector<Offer> nodes(unsigned count, unsigned gpus) {
    std::vector<Offer> offers;
    for (unsigned i = 0; i < count; ++i) {
        offers.push_back({i, "n" + std::to_string(i), gpus});
    }
    return offers;
}

TEST(BenchLayout, TwoRanksAreOnTwoNodes) {
    const auto places = places_for(nodes(3, 8), 2);
    ASSERT_TRUE(places);
    EXPECT_EQ(*places, (std::vector<RankSlot>{{0, 0}, {1, 0}}));
    EXPECT_EQ(nodes_of(nodes(3, 8), *places), 2U);
    EXPECT_EQ(*places_for(nodes(1, 8), 2), (std::vector<RankSlot>{{0, 0}, {0, 1}}));
}

TEST(BenchLayout, NodesAreFilledOneAfterTheOther) {
    const auto places = places_for(nodes(2, 3), 4);
    EXPECT_EQ(*places, (std::vector<RankSlot>{{0, 0}, {0, 1}, {0, 2}, {1, 0}}));
    EXPECT_FALSE(places_for(nodes(2, 3), 7));
    EXPECT_FALSE(places_for(nodes(2, 3), 0));
    EXPECT_FALSE(places_for({}, 2));
}

TEST(BenchLayout, RanksOfANodeAreNeighboursAlsoWhereTasksAreDealtOut) {
    const std::vector<Offer> cyclic = {{0, "a", 1}, {1, "b", 1}, {2, "a", 1}, {3, "b", 1}, {4, "c", 0}};
    EXPECT_EQ(*places_for(cyclic, 4), (std::vector<RankSlot>{{0, 0}, {2, 0}, {1, 0}, {3, 0}}));
    EXPECT_EQ(*places_for(cyclic, 2), (std::vector<RankSlot>{{0, 0}, {1, 0}}));
    EXPECT_EQ(nodes_of(cyclic, *places_for(cyclic, 4)), 2U);
}

TEST(BenchLayout, NumbersOfRanks) {
    EXPECT_EQ(default_rank_counts(nodes(2, 8)), (std::vector<unsigned>{2, 4, 8, 16}));
    EXPECT_EQ(default_rank_counts(nodes(3, 2)), (std::vector<unsigned>{2, 4, 6}));
    EXPECT_EQ(default_rank_counts(nodes(1, 1)), (std::vector<unsigned>{1}));
    EXPECT_TRUE(default_rank_counts(nodes(3, 0)).empty());
    EXPECT_EQ(default_rank_counts(nodes(1000, 8)).size(), 13U);
}

TEST(BenchLayout, Runs) {
    using enum RunKind;
    EXPECT_EQ(kinds_of_runs(true, false), (std::vector{AsItIs, NoRdma, AsItIsAgain}));
    EXPECT_EQ(kinds_of_runs(true, true), (std::vector{AsItIs, NoRdma, NoGpuDirect, AsItIsAgain}));
    EXPECT_EQ(kinds_of_runs(false, true), (std::vector{AsItIs}));
    EXPECT_TRUE(variables_of(AsItIs).empty());
    EXPECT_EQ(variables_of(NoRdma).size(), 3U) << "also a plugin's network, and one that is asked for";
    EXPECT_FALSE(make_run(NoRdma, 4).rdma_meant);
    EXPECT_EQ(make_run(AsItIsAgain, 4).name, "A'");
    EXPECT_TRUE(make_run(NoRdma, 4, true).variables.empty());
}

/// "0 1; 2": what each of them uses.
std::string shares_of(const std::vector<WorkerGpus>& sights) {
    std::string text;
    for (const auto& share : share_gpus(sights)) {
        for (const unsigned gpu : share) {
            text += " " + std::to_string(gpu);
        }
        text += ";";
    }
    return text.substr(0, text.size() - 1);
}

TEST(BenchLayout, EachGpuIsUsedOnce) {
    EXPECT_EQ(shares_of({{"n1", 0, {"a", "b", "c"}}}), " 0 1 2") << "one process for all";
    EXPECT_EQ(shares_of({{"n1", 0, {"a", "b"}}, {"n1", 1, {"a", "b"}}}), " 0; 1") << "each sees all";
    EXPECT_EQ(shares_of({{"n1", 0, {"a", "b"}}, {"n1", 1, {"c", "d"}}}), " 0 1; 0 1") << "--gpus-per-task=2";
    EXPECT_EQ(shares_of({{"n1", 0, {"a"}}, {"n1", 1, {"b"}}}), " 0; 0") << "--gpus-per-task=1";
    EXPECT_EQ(shares_of({{"n1", 0, {"a"}}, {"n1", 1, {"a"}}}), " 0;") << "the same one";
    EXPECT_EQ(shares_of({{"n1", 0, {"a", "b"}}, {"n1", 1, {"a"}}}), " 1; 0") << "who has no choice comes first";
    EXPECT_EQ(shares_of({{"n1", 0, {"a"}}, {"n2", 0, {"a"}}}), " 0; 0") << "two nodes";
    EXPECT_EQ(shares_of({{"n1", 0, {"", ""}}}), " 0 1") << "addresses that are not known";
    EXPECT_EQ(shares_of({{"n1", 0, {}}, {"n1", 1, {"a"}}}), "; 0");
    EXPECT_EQ(shares_of({{"n1", 0, {"a", "b", "c", "d"}}, {"n1", 1, {"a", "b", "c", "d"}}}), " 0 2; 1 3")
        << "none is left";
}

TEST(BenchProbe, WhatNoMemberSaysIsRefused) {
    EXPECT_FALSE(read_inspected_node(Json::object()));
    InspectedNode node;
    node.places = 3;
    node.gpus = {"a", "b"};
    const auto read = read_inspected_node(inspected_node_json(node));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->places, 3U);
    auto bad = inspected_node_json(node);
    bad["gpus"] = Json::array({5});
    EXPECT_FALSE(read_inspected_node(bad));
}

// --- The ring ---

TEST(RingReduce, PartsCoverAllValuesOnce) {
    for (const std::size_t count : {0U, 1U, 5U, 17U, 64U, 1000U}) {
        for (unsigned ranks = 1; ranks < 9; ++ranks) {
            std::size_t next = 0;
            for (unsigned index = 0; index < ranks; ++index) {
                const auto part = ring_part(count, ranks, index);
                EXPECT_EQ(part.first, next);
                EXPECT_LE(part.count, count / ranks + 1);
                next += part.count;
            }
            EXPECT_EQ(next, count);
        }
    }
}

/// All ranks in one thread: what each sends in a step is what the next one gets.
TEST(RingReduce, AllRanksHaveTheSum) {
    for (unsigned ranks = 2; ranks < 7; ++ranks) {
        constexpr std::size_t count = 23;
        std::vector<std::vector<float>> send(ranks);
        std::vector<float> sum(count);
        for (unsigned rank = 0; rank < ranks; ++rank) {
            for (std::size_t i = 0; i < count; ++i) {
                send[rank].push_back(static_cast<float>(rank * 100 + i));
                sum[i] += send[rank][i];
            }
        }
        // Rank after rank: the steps' values of the one before are known when it starts, but for the last of the ring;
        // so all are run as often as there are steps, each time one step further.
        const unsigned steps = 2 * (ranks - 1);
        std::vector<std::vector<std::vector<float>>> sent(ranks, std::vector<std::vector<float>>(steps));
        std::vector<std::vector<float>> result(ranks);
        for (unsigned known = 0; known <= steps; ++known) {
            for (unsigned rank = 0; rank < ranks; ++rank) {
                std::vector<float> receive(count, -1);
                unsigned step = 0;
                const auto exchange = [&](const RingStep& now) -> Result<void> {
                    sent[rank][step].assign(now.out.begin(), now.out.end());
                    auto in = sent[(rank + ranks - 1) % ranks][step++];
                    in.resize(now.in_count, 0);
                    if (now.places) {
                        std::copy(in.begin(), in.end(), receive.begin() + static_cast<std::ptrdiff_t>(now.places->in));
                    } else {
                        now.arrived(in, 0);
                    }
                    return {};
                };
                ASSERT_TRUE(ring_all_reduce(exchange, rank, ranks, send[rank], receive));
                ASSERT_EQ(step, steps);
                result[rank] = receive;
            }
        }
        for (unsigned rank = 0; rank < ranks; ++rank) {
            EXPECT_EQ(result[rank], sum) << rank << " of " << ranks;
        }
    }
}

TEST(RingReduce, AFailureEndsIt) {
    std::vector<float> values(8);
    unsigned steps = 0;
    const auto done = ring_all_reduce(
        [&steps](const RingStep&) -> Result<void> { return ++steps == 2 ? fail("gone") : Result<void>(); }, 0, 4,
        values, values);
    EXPECT_FALSE(done);
    EXPECT_EQ(steps, 2U);
}

} // namespace

} // namespace rdma_nccl::bench
