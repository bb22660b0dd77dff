// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/signal_policy.h"

#include <csignal>
#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

using std::chrono::milliseconds;

constexpr SignalDedup::Time start{std::chrono::hours(1)};

TEST(RunSignalCount, BothHalvesAreOneSignal) {
    for (const bool guard_first : {true, false}) {
        for (const bool by_slurm : {true, false}) {
            SignalDedup counts;
            const auto direct = [&] { counts.direct(SIGUSR1, start, by_slurm, false); };
            guard_first ? counts.from_guard(SIGUSR1, start) : direct();
            EXPECT_TRUE(counts.take_due(start).empty());
            guard_first ? direct() : counts.from_guard(SIGUSR1, start);
            const auto due = counts.take_due(start);
            ASSERT_EQ(due.size(), 1U);
            EXPECT_EQ(due[0].signal, SIGUSR1);
            EXPECT_EQ(due[0].count, 1U);
            EXPECT_EQ(due[0].ranks_have_it, by_slurm);
            EXPECT_FALSE(counts.deadline());
        }
    }
}

TEST(RunSignalCount, HalvesThatComeLateCountOnceToo) {
    const auto late = start + milliseconds(4000);
    SignalDedup guard_first;
    guard_first.from_guard(SIGINT, start);
    EXPECT_EQ(guard_first.take_due(late).size(), 1U);
    guard_first.direct(SIGINT, late, false, false); // the job is being ended now
    EXPECT_TRUE(guard_first.take_due(late + milliseconds(5000)).empty());

    SignalDedup direct_first;
    direct_first.direct(SIGINT, start, false, true);
    EXPECT_EQ(direct_first.take_due(late).size(), 1U);
    direct_first.from_guard(SIGINT, late);
    EXPECT_TRUE(direct_first.take_due(late + milliseconds(5000)).empty());
    direct_first.from_guard(SIGINT, late + milliseconds(6000)); // the next one
    EXPECT_EQ(direct_first.take_due(late + milliseconds(9000)).at(0).count, 2U);
}

TEST(RunSignalCount, ADebtOfTheGuardIsForgotten) {
    SignalDedup counts;
    counts.direct(SIGTERM, start, false, true); // sent to the launcher's child alone
    EXPECT_EQ(counts.take_due(start + milliseconds(100)).size(), 1U);
    counts.from_guard(SIGTERM, start + milliseconds(6000));
    EXPECT_EQ(counts.take_due(start + milliseconds(7000)).size(), 1U);
}

TEST(RunSignalCount, AnOrderWaitsForTheOwnCopy) {
    SignalDedup counts;
    counts.from_node(SIGTERM, 1, start);
    counts.from_guard(SIGTERM, start + milliseconds(10));
    counts.direct(SIGTERM, start + milliseconds(10), true, true);
    const auto own = counts.take_due(start + milliseconds(10));
    ASSERT_EQ(own.size(), 1U);
    EXPECT_TRUE(own[0].ranks_have_it);
    EXPECT_TRUE(own[0].here);
    EXPECT_EQ(counts.outstanding(SIGTERM, own[0].count), 1U);
    ASSERT_TRUE(counts.deadline());
    const auto order = counts.take_due(*counts.deadline());
    ASSERT_EQ(order.size(), 1U);
    EXPECT_FALSE(order[0].here);
    EXPECT_EQ(counts.outstanding(SIGTERM, order[0].count), 0U);
    EXPECT_FALSE(counts.deadline());
}

TEST(RunSignalCount, ADirectOneThatEndsNothingDoesNotCount) {
    SignalDedup counts;
    counts.direct(SIGUSR1, start, true, false);
    EXPECT_TRUE(counts.take_due(start + milliseconds(5000)).empty());
}

TEST(RunSignalCount, TheOwnCopyMayComeAfterARankDiedOfIt) {
    SignalDedup counts;
    counts.expect(SIGTERM, start);
    ASSERT_TRUE(counts.deadline()) << "exits wait for it";
    counts.from_guard(SIGTERM, start + milliseconds(5));
    counts.direct(SIGTERM, start + milliseconds(5), true, true);
    EXPECT_EQ(counts.take_due(start + milliseconds(5)).at(0).count, 1U);
    EXPECT_FALSE(counts.deadline());
    counts.expect(SIGTERM, start + milliseconds(500)); // somebody killed a rank
    EXPECT_TRUE(counts.take_due(*counts.deadline()).empty());
    EXPECT_FALSE(counts.deadline());
}

TEST(RunSignalCount, OneHalfIsASignalAfterAWhile) {
    SignalDedup counts;
    counts.from_guard(SIGUSR1, start);
    ASSERT_TRUE(counts.deadline());
    EXPECT_TRUE(counts.take_due(*counts.deadline() - milliseconds(1)).empty());
    const auto due = counts.take_due(*counts.deadline());
    ASSERT_EQ(due.size(), 1U);
    EXPECT_FALSE(due[0].ranks_have_it);
    counts.from_guard(SIGUSR1, start + milliseconds(500));
    EXPECT_EQ(counts.take_due(start + milliseconds(900)).at(0).count, 2U);
}

TEST(RunSignalCount, WhatOtherNodesGotIsActedOnOnce) {
    SignalDedup counts;
    EXPECT_EQ(counts.outstanding(SIGUSR1, 1), 1U); // told by another node
    counts.from_guard(SIGUSR1, start);             // then from Slurm
    const auto due = counts.take_due(start + milliseconds(100));
    ASSERT_EQ(due.size(), 1U);
    EXPECT_EQ(counts.outstanding(SIGUSR1, due[0].count), 0U);
    EXPECT_EQ(counts.outstanding(SIGUSR1, 3), 2U);
    EXPECT_EQ(counts.outstanding(SIGUSR2, 1), 1U);
}

} // namespace

} // namespace rdma_nccl::run
