// SPDX-License-Identifier: Apache-2.0
#include "tools/common/process.h"
#include "tools/run/process/signal_policy.h"

#include <csignal>
#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

using Action = EndPolicy::Action;
using Phase = EndPolicy::Phase;
using std::chrono::milliseconds;

constexpr milliseconds grace{500};
const std::set<int> end_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr EndPolicy::Time start{std::chrono::hours(1)};

TEST(RunPolicy, NothingHappens) {
    EndPolicy policy(grace, end_signals);
    EXPECT_EQ(policy.on_time(start), Action{});
    EXPECT_EQ(policy.phase(), Phase::Running);
    EXPECT_FALSE(policy.deadline());
}

TEST(RunPolicy, FirstFailureEndsTheOthers) {
    EndPolicy policy(grace, end_signals);
    EXPECT_EQ(policy.on_failure(start), Action{.to_groups = SIGTERM});
    EXPECT_EQ(policy.on_failure(start), Action{}) << "of a rank that was ended";
    EXPECT_EQ(policy.deadline(), start + grace);
    EXPECT_EQ(policy.on_time(start + grace - milliseconds(1)), Action{});
    EXPECT_EQ(policy.phase(), Phase::Ending);
    EXPECT_EQ(policy.on_time(start + grace), Action{.to_groups = SIGKILL});
    EXPECT_EQ(policy.phase(), Phase::Killing);
    EXPECT_EQ(policy.on_time(start + grace + kill_timeout), Action{});
    EXPECT_EQ(policy.phase(), Phase::GivenUp);
}

TEST(RunPolicy, EndSignals) {
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        EndPolicy policy(grace, end_signals);
        EXPECT_EQ(policy.on_signal(signal_number, start), Action{.to_groups = signal_number});
        EXPECT_EQ(policy.on_failure(start), Action{}) << "the signal was first";
        EXPECT_EQ(policy.on_time(start + grace), Action{.to_groups = SIGKILL});
    }
}

TEST(RunPolicy, SecondInterruptKills) {
    EndPolicy policy(grace, end_signals);
    policy.on_signal(SIGINT, start);
    EXPECT_EQ(policy.on_signal(SIGTERM, start), Action{.to_groups = SIGTERM}) << "another one may be heeded";
    EXPECT_EQ(policy.deadline(), start + grace) << "and gives no more time";
    EXPECT_EQ(policy.on_signal(SIGINT, start), Action{.to_groups = SIGKILL});
    EXPECT_EQ(policy.on_signal(SIGINT, start), Action{});
}

TEST(RunPolicy, InterruptWhileEndingKills) {
    EndPolicy policy(grace, end_signals);
    policy.on_failure(start);
    EXPECT_EQ(policy.on_signal(SIGINT, start), Action{.to_groups = SIGKILL});
}

TEST(RunPolicy, OtherSignalsPass) {
    EndPolicy policy(grace, end_signals);
    for (const int signal_number : {SIGUSR1, SIGUSR2, SIGWINCH}) {
        EXPECT_EQ(policy.on_signal(signal_number, start), Action{.to_ranks = signal_number});
    }
    for (const int signal_number : {SIGTSTP, SIGCONT}) {
        EXPECT_EQ(policy.on_signal(signal_number, start), Action{.to_groups = signal_number});
    }
    EXPECT_EQ(policy.phase(), Phase::Running);
}

TEST(RunPolicy, LostGuardKillsAtOnce) {
    EndPolicy policy(grace, end_signals);
    EXPECT_EQ(policy.on_guard_gone(start), Action{.to_groups = SIGKILL});
    EXPECT_EQ(policy.phase(), Phase::Killing);
    EXPECT_EQ(policy.leftover_signal(), SIGKILL);
}

TEST(RunPolicy, Leftovers) {
    EndPolicy policy(grace, end_signals);
    policy.on_leftovers(start);
    EXPECT_EQ(policy.leftover_signal(), SIGTERM);
    policy.on_leftovers(start + milliseconds(1));
    EXPECT_EQ(policy.deadline(), start + grace);
    policy.on_time(start + grace);
    EXPECT_EQ(policy.leftover_signal(), SIGKILL);
}

TEST(RunPolicy, ExitCodes) {
    EXPECT_EQ(exit_code_for_status(0), 0);
    EXPECT_EQ(exit_code_for_status(7 << 8), 7);
    EXPECT_EQ(exit_code_for_status(SIGSEGV | 0x80), 139);
    EXPECT_EQ(exit_code_for_status(SIGKILL), 137);
}

} // namespace

} // namespace rdma_nccl::run
