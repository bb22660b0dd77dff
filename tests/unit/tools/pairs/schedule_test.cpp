// SPDX-License-Identifier: Apache-2.0
// Schedules without devices: every pair once, and no node in two pairs of a round.
#include "tools/pairs/pairs.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace rdma_nccl::pairs {
namespace {

/// No node twice in a round, none beyond the last, no round empty, a before b (or itself).
void expect_disjoint(const std::vector<Round>& rounds, unsigned nodes) {
    std::vector<unsigned> seen_in(nodes, 0);
    unsigned number = 0;
    for (const Round& round : rounds) {
        ++number;
        ASSERT_FALSE(round.empty()) << nodes << " nodes";
        for (const auto& [a, b, rail_a, rail_b] : round) {
            // One condition: half a million pairs are looked at.
            const bool good = a <= b && b < nodes && seen_in[a] != number && seen_in[b] != number;
            ASSERT_TRUE(good) << a << " and " << b << " of " << nodes << " in round " << number;
            seen_in[a] = seen_in[b] = number;
        }
    }
}

std::vector<Pairing> flat(const std::vector<Round>& rounds) {
    std::vector<Pairing> pairs;
    for (const Round& round : rounds) {
        pairs.insert(pairs.end(), round.begin(), round.end());
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
}

void expect_no_pair_twice(const std::vector<Round>& rounds) {
    const auto pairs = flat(rounds);
    ASSERT_EQ(std::adjacent_find(pairs.begin(), pairs.end()), pairs.end());
}

void expect_all_once(unsigned nodes) {
    const auto rounds = all_pairs(nodes);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(rounds, nodes));
    std::vector<char> seen(std::size_t{nodes} * nodes, 0);
    std::size_t pairs = 0;
    for (const Round& round : rounds) {
        for (const auto& [a, b, rail_a, rail_b] : round) {
            char& once = seen[std::size_t{a} * nodes + b];
            ASSERT_TRUE(a != b && once == 0) << a << " and " << b << " of " << nodes;
            once = 1;
            ++pairs;
        }
    }
    ASSERT_EQ(pairs, std::size_t{nodes} * (nodes - (nodes > 0)) / 2) << nodes << " nodes";
    const unsigned fewest = nodes < 2 ? 0 : nodes % 2 == 0 ? nodes - 1 : nodes;
    ASSERT_EQ(rounds.size(), fewest) << nodes << " nodes";
}

TEST(PairsSchedule, AllPairsOnceInTheFewestRounds) {
    for (unsigned nodes = 0; nodes <= 200; ++nodes) {
        ASSERT_NO_FATAL_FAILURE(expect_all_once(nodes));
    }
    ASSERT_NO_FATAL_FAILURE(expect_all_once(1000));
    ASSERT_NO_FATAL_FAILURE(expect_all_once(1001));
}

TEST(PairsSchedule, QuickRoundsHaveNoPairTwiceWhileOthersAreLeft) {
    for (unsigned nodes = 0; nodes <= 200; ++nodes) {
        const auto rounds = quick_pairs(nodes, 5, nodes);
        ASSERT_EQ(rounds.size(), nodes < 2 ? 0U : 5U);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(rounds, nodes));
        for (const Round& round : rounds) {
            ASSERT_EQ(round.size(), nodes / 2) << "as many pairs at a time as there can be";
        }
        if (nodes > 5) {
            ASSERT_NO_FATAL_FAILURE(expect_no_pair_twice(rounds));
        }
    }
    const auto big = quick_pairs(1001, 5, 1);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(big, 1001));
    ASSERT_NO_FATAL_FAILURE(expect_no_pair_twice(big));
}

TEST(PairsSchedule, MoreQuickRoundsThanThereArePairsRepeatAllOfThem) {
    const auto pairs = flat(quick_pairs(6, 10, 3)); // 5 rounds have all 15 pairs
    for (unsigned a = 0; a < 6; ++a) {
        for (unsigned b = a + 1; b < 6; ++b) {
            EXPECT_EQ(std::count(pairs.begin(), pairs.end(), Pairing{.a = a, .b = b}), 2);
        }
    }
}

TEST(PairsSchedule, QuickRoundsDependOnTheSeedAlone) {
    EXPECT_EQ(quick_pairs(64, 4, 7), quick_pairs(64, 4, 7));
    EXPECT_NE(quick_pairs(64, 4, 7), quick_pairs(64, 4, 8));
    // The same on every machine and with every compiler.
    EXPECT_EQ(quick_pairs(4, 1, 1), (NodeRounds{{{.a = 1, .b = 2}, {.a = 0, .b = 3}}}));
    std::set<NodeRounds> different;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        different.insert(quick_pairs(8, 1, seed));
    }
    EXPECT_GT(different.size(), 40U) << "of 105 matchings";
}

TEST(PairsSchedule, ARing) {
    for (unsigned nodes : {0U, 1U, 2U, 3U, 4U, 5U, 63U, 64U, 199U, 200U, 1000U, 1001U}) {
        const auto rounds = ring_pairs(nodes);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(rounds, nodes));
        ASSERT_NO_FATAL_FAILURE(expect_no_pair_twice(rounds));
        const auto pairs = flat(rounds);
        ASSERT_EQ(pairs.size(), nodes < 2 ? 0 : nodes == 2 ? 1 : nodes);
        for (const Pairing& pair : pairs) {
            EXPECT_TRUE(pair.b - pair.a == 1 || pair.b - pair.a == nodes - 1);
        }
        ASSERT_EQ(rounds.size(), nodes < 2 ? 0 : nodes == 2 ? 1 : nodes % 2 == 0 ? 2 : 3);
    }
}

TEST(PairsSchedule, ABisectionIsOneRoundAndOneForTheLast) {
    for (unsigned nodes : {0U, 1U, 2U, 3U, 7U, 64U, 1001U}) {
        const auto rounds = bisection_pairs(nodes);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(rounds, nodes));
        ASSERT_NO_FATAL_FAILURE(expect_no_pair_twice(rounds));
        ASSERT_EQ(rounds.size(), nodes < 2 ? 0 : 1 + nodes % 2);
        if (rounds.empty()) {
            continue;
        }
        for (const Pairing& pair : rounds[0]) {
            EXPECT_EQ(pair.b, pair.a + nodes / 2);
        }
        ASSERT_EQ(rounds[0].size(), nodes / 2);
        if (nodes % 2 != 0) {
            EXPECT_EQ(rounds[1], (Round{{.a = 0, .b = nodes - 1}}));
        }
    }
}

TEST(PairsSchedule, LoopbackIsEachWithItself) {
    EXPECT_TRUE(loopback_pairs(0).empty());
    EXPECT_EQ(loopback_pairs(3), (NodeRounds{{{.a = 0, .b = 0}, {.a = 1, .b = 1}, {.a = 2, .b = 2}}}));
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(loopback_pairs(1000), 1000));
}

TEST(PairsSchedule, SuspectsMeetGoodNodes) {
    const std::vector<unsigned> suspects = {7, 3, 7, 9, 1, 5};
    const std::vector<unsigned> good = {3, 2, 8, 2}; // a suspect is not good
    const auto rounds = retest_pairs(suspects, good);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(rounds, 10));
    EXPECT_EQ(rounds.size(), 3U) << "five suspects, two good nodes";
    std::set<unsigned> met;
    for (const Pairing& pair : flat(rounds)) {
        const bool first_good = pair.a == 2 || pair.a == 8;
        const bool second_good = pair.b == 2 || pair.b == 8;
        EXPECT_NE(first_good, second_good);
        EXPECT_TRUE(met.insert(first_good ? pair.b : pair.a).second) << "once each";
    }
    EXPECT_EQ(met, (std::set<unsigned>{1, 3, 5, 7, 9}));
    EXPECT_TRUE(retest_pairs(suspects, {}).empty());
    EXPECT_TRUE(retest_pairs({}, good).empty());
    EXPECT_TRUE(retest_pairs(good, good).empty());
}

TEST(PairsSchedule, SameRails) {
    const std::vector<unsigned> rails = {2, 1, 3, 0, 2};
    const auto rounds = with_rails(all_pairs(5), rails, RailPairing::Same);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(rounds, 5));
    ASSERT_NO_FATAL_FAILURE(expect_no_pair_twice(rounds));
    std::size_t expected = 0;
    for (unsigned a = 0; a < 5; ++a) {
        for (unsigned b = a + 1; b < 5; ++b) {
            expected += std::min(rails[a], rails[b]);
        }
    }
    EXPECT_EQ(flat(rounds).size(), expected);
    for (const Pairing& pair : flat(rounds)) {
        EXPECT_EQ(pair.rail_a, pair.rail_b);
        EXPECT_LT(pair.rail_a, rails[pair.a]);
        EXPECT_LT(pair.rail_b, rails[pair.b]);
    }
    EXPECT_EQ(with_rails(all_pairs(64), std::vector<unsigned>(64, 8), RailPairing::Same).size(), 63U * 8);
}

TEST(PairsSchedule, EachRailWithEach) {
    const std::vector<unsigned> rails = {2, 1, 3, 0, 2};
    const auto rounds = with_rails(all_pairs(5), rails, RailPairing::Cross);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(rounds, 5));
    ASSERT_NO_FATAL_FAILURE(expect_no_pair_twice(rounds));
    std::size_t expected = 0;
    for (unsigned a = 0; a < 5; ++a) {
        for (unsigned b = a + 1; b < 5; ++b) {
            expected += std::size_t{rails[a]} * rails[b];
        }
    }
    EXPECT_EQ(flat(rounds).size(), expected);
    EXPECT_EQ(with_rails(all_pairs(4), std::vector<unsigned>(4, 3), RailPairing::Cross).size(), 3U * 9);
}

TEST(PairsSchedule, RailsOfLoopbackMeetThemselvesOnly) {
    const std::vector<unsigned> rails = {2, 1};
    const std::vector<Round> expected = {{{.a = 0, .b = 0}, {.a = 1, .b = 1}},
                                         {{.a = 0, .b = 0, .rail_a = 1, .rail_b = 1}}};
    EXPECT_EQ(with_rails(loopback_pairs(2), rails, RailPairing::Same), expected);
    EXPECT_EQ(with_rails(loopback_pairs(2), rails, RailPairing::Cross), expected);
}

TEST(PairsSchedule, NodesWithoutRailsAreNotScheduled) {
    EXPECT_TRUE(with_rails(all_pairs(4), {}, RailPairing::Same).empty());
    EXPECT_TRUE(with_rails(all_pairs(4), std::vector<unsigned>(4, 0), RailPairing::Cross).empty());
    EXPECT_TRUE(with_rails(all_pairs(4), std::vector<unsigned>{1}, RailPairing::Same).empty());
}

} // namespace
} // namespace rdma_nccl::pairs
