// SPDX-License-Identifier: Apache-2.0
#include "tools/run/control/arbiter.h"

#include <csignal>
#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

using Orders = std::vector<Order>;
using std::chrono::milliseconds;

constexpr Arbiter::Time start{std::chrono::hours(1)};

RankFailure failure_of(unsigned rank, int code, unsigned attempt = 0) {
    RankFailure failure;
    failure.host = rank < 4 ? "n01" : "n02";
    failure.rank = rank;
    failure.local_rank = rank % 4;
    failure.code = code;
    failure.attempt = attempt;
    return failure;
}

ArbiterRules rules(unsigned nodes, unsigned restarts = 0) {
    return {nodes, restarts, 93, {SIGINT, SIGTERM}, [](unsigned attempt) { return std::uint16_t(7000 + attempt); }};
}

std::string why(unsigned rank, int code) {
    return "rank " + std::to_string(rank) + " (local " + std::to_string(rank % 4) + ") on " +
           (rank < 4 ? "n01" : "n02") + ": exited with code " + std::to_string(code);
}

TEST(RunArbiter, FinishesWhenAllNodesHaveEnded) {
    Arbiter arbiter(rules(2));
    arbiter.on_ended(1, {});
    EXPECT_EQ(arbiter.take_orders(), Orders{});
    arbiter.on_ended(0, {});
    EXPECT_EQ(arbiter.take_orders(), Orders{Finish{0}});
    EXPECT_EQ(arbiter.take_orders(), Orders{});
    EXPECT_TRUE(arbiter.finished());
}

TEST(RunArbiter, TheFirstFailureEndsAllAndGivesTheCode) {
    Arbiter arbiter(rules(2));
    arbiter.on_failure(1, failure_of(5, 7), start);
    EXPECT_EQ(arbiter.take_orders(), (Orders{EndRanks{0, why(5, 7)}}));
    arbiter.on_failure(0, failure_of(0, 1), start + milliseconds(3));
    arbiter.on_ended(0, {});
    arbiter.on_ended(1, {});
    EXPECT_EQ(arbiter.take_orders(), Orders{Finish{7}});
}

TEST(RunArbiter, FirstIsWhoFailedFirstNotWhoIsHeardFirst) {
    Arbiter arbiter(rules(2));
    arbiter.on_failure(0, failure_of(0, 1), start);
    arbiter.on_failure(1, failure_of(5, 7), start - milliseconds(3));
    arbiter.on_ended(0, {});
    arbiter.on_ended(1, {});
    EXPECT_EQ(arbiter.take_orders(), (Orders{EndRanks{0, why(0, 1)}, Finish{7}}));
    EXPECT_EQ(arbiter.failures().front().rank, 5U);
}

TEST(RunArbiter, KeepsTheDumpsOfTheLastAttempt) {
    Arbiter arbiter(rules(2, 1));
    const auto dump_of = [](unsigned rank, unsigned attempt) {
        return RankDump{"n01", "/d", attempt, {"2.10", rank, {}}};
    };
    arbiter.on_failure(0, failure_of(1, 7), start);
    arbiter.on_dump(0, dump_of(1, 0));
    arbiter.on_dump(1, dump_of(0, 0));
    arbiter.on_dump(1, dump_of(3, 1)); // of an attempt to come
    arbiter.on_dump(9, dump_of(4, 0)); // there is no such node
    EXPECT_EQ(arbiter.dumps(), (std::vector{dump_of(0, 0), dump_of(1, 0)}));
    arbiter.on_ended(0, {});
    arbiter.on_ended(1, {});
    EXPECT_TRUE(arbiter.dumps().empty()) << "the ranks have started again";
}

TEST(RunArbiter, DetailsComeLater) {
    Arbiter arbiter(rules(1));
    arbiter.on_failure(0, failure_of(1, 7), start);
    arbiter.on_failure(0, failure_of(2, 8), start + milliseconds(1));
    auto detailed = failure_of(1, 7);
    detailed.error = "ValueError";
    arbiter.on_failure(0, detailed, start + milliseconds(90));
    ASSERT_EQ(arbiter.failures().size(), 2U);
    EXPECT_EQ(arbiter.failures().front(), detailed) << "its time is that of the first notice";
}

TEST(RunArbiter, StartsAgainWhenAllHaveEnded) {
    Arbiter arbiter(rules(2, 1));
    arbiter.on_failure(1, failure_of(5, 7), start);
    arbiter.on_ended(1, {});
    EXPECT_EQ(arbiter.take_orders().size(), 1U);
    arbiter.on_ended(0, {});
    EXPECT_EQ(arbiter.take_orders(), (Orders{Restart{1, 7001}}));
    arbiter.on_failure(0, failure_of(0, 1), start); // of the attempt before
    arbiter.on_ended(0, {0, true});
    EXPECT_EQ(arbiter.take_orders(), Orders{});
    arbiter.on_failure(0, failure_of(2, 9, 1), start + milliseconds(5));
    arbiter.on_ended(0, {1, true});
    arbiter.on_ended(1, {1, true});
    EXPECT_EQ(arbiter.take_orders(), (Orders{EndRanks{1, why(2, 9)}, Finish{9}})) << "no restart is left";
}

TEST(RunArbiter, DoesNotStartAgainAgainstTheRules) {
    Arbiter wanted(rules(1, 3));
    wanted.on_failure(0, failure_of(1, 93), start);
    wanted.on_ended(0, {});
    EXPECT_EQ(wanted.take_orders().back(), Order(Finish{93}));

    Arbiter hanging(rules(1, 3));
    hanging.on_failure(0, failure_of(1, 7), start);
    hanging.on_ended(0, {0, false});
    EXPECT_EQ(hanging.take_orders().back(), Order(Finish{7}));

    auto no_port = rules(1, 3);
    no_port.new_port = [](unsigned /*attempt*/) { return std::nullopt; };
    Arbiter without(no_port);
    without.on_failure(0, failure_of(1, 7), start);
    without.on_ended(0, {});
    EXPECT_EQ(without.take_orders().back(), Order(Finish{7}));

    Arbiter ended(rules(1, 3));
    ended.on_signal(0, {SIGTERM, 1});
    ended.on_failure(0, failure_of(1, 7), start);
    ended.on_ended(0, {});
    EXPECT_EQ(ended.take_orders(), (Orders{SignalCount{SIGTERM, 1}, Finish{128 + SIGTERM}}));

    Arbiter late(rules(1, 3));
    late.on_failure(0, failure_of(1, 7), start);
    late.on_signal(0, {SIGTERM, 1}); // while the ranks are being ended
    late.on_ended(0, {});
    EXPECT_EQ(late.take_orders().back(), Order(Finish{7}));

    Arbiter lost(rules(2, 3));
    lost.on_lost(1, "n02 is lost");
    lost.on_ended(0, {});
    EXPECT_EQ(lost.take_orders(), (Orders{EndRanks{0, "n02 is lost"}, Finish{1}}));
    EXPECT_EQ(lost.end_reasons(), std::vector<std::string>{"n02 is lost"});
}

TEST(RunArbiter, ARankThatDiesOfASignalToTheJobIsNotStartedAgain) {
    auto mapping = rules(1, 3);
    mapping.end_signals = {SIGINT}; // TERM is mapped
    mapping.on_signal = {{SIGTERM, SIGUSR1}};
    for (const int killed_by : {SIGTERM, SIGUSR1}) {
        Arbiter arbiter(mapping);
        arbiter.on_failure(0, failure_of(1, 128 + killed_by), start); // before the launcher's own copy came
        arbiter.on_signal(0, {SIGTERM, 1});
        arbiter.on_ended(0, {});
        EXPECT_EQ(arbiter.take_orders().back(), Order(Finish{128 + killed_by}));
    }
    Arbiter passed_on(rules(1, 3));
    passed_on.on_signal(0, {SIGUSR1, 1});
    passed_on.on_failure(0, failure_of(1, 128 + SIGUSR1), start);
    passed_on.on_ended(0, {});
    EXPECT_EQ(passed_on.take_orders().back(), Order(Finish{128 + SIGUSR1}));
}

TEST(RunArbiter, ASignalToTheJobKeepsNoOtherFailureFromARestart) {
    auto mapping = rules(1, 3);
    mapping.end_signals = {SIGINT};
    mapping.on_signal = {{SIGTERM, SIGUSR1}};
    Arbiter arbiter(mapping);
    arbiter.on_failure(0, failure_of(1, 128 + SIGTERM), start); // nobody else got it
    arbiter.on_ended(0, {});
    EXPECT_EQ(arbiter.take_orders().back(), (Order(Restart{1, 7001})));
    arbiter.on_signal(0, {SIGTERM, 1});
    arbiter.on_failure(0, failure_of(1, 7, 1), start);
    arbiter.on_ended(0, {1, true});
    EXPECT_EQ(arbiter.take_orders().back(), (Order(Restart{2, 7002})));
    arbiter.on_failure(0, failure_of(1, 128 + SIGTERM, 2), start); // the signal was for the attempt before
    arbiter.on_ended(0, {2, true});
    EXPECT_EQ(arbiter.take_orders().back(), (Order(Restart{3, 7003})));
}

TEST(RunArbiter, ASignalThatAllNodesGotCountsOnce) {
    Arbiter arbiter(rules(3));
    for (unsigned node = 0; node < 3; ++node) {
        arbiter.on_signal(node, {SIGUSR1, 1});
    }
    EXPECT_EQ(arbiter.take_orders(), (Orders{SignalCount{SIGUSR1, 1}}));
    arbiter.on_signal(2, {SIGUSR1, 2});
    EXPECT_EQ(arbiter.take_orders(), (Orders{SignalCount{SIGUSR1, 2}}));
}

TEST(RunArbiter, MissingNodesAreNotAwaited) {
    Arbiter arbiter(rules(3));
    arbiter.on_ended(0, {});
    arbiter.on_absent(1);
    EXPECT_FALSE(arbiter.finished());
    arbiter.on_lost(2, "n03 is lost");
    EXPECT_EQ(arbiter.take_orders().back(), Order(Finish{1}));
}

TEST(RunArbiter, WhoComesAfterAllIsAwaited) {
    Arbiter arbiter(rules(2));
    arbiter.on_absent(1);
    arbiter.on_absent(1, false);
    arbiter.on_ended(0, {});
    EXPECT_FALSE(arbiter.finished());
    arbiter.on_ended(1, {});
    EXPECT_TRUE(arbiter.finished());
}

TEST(RunArbiter, WhoComesLateHearsWhatHolds) {
    Arbiter arbiter(rules(2));
    EXPECT_EQ(arbiter.standing_orders(), Orders{});
    arbiter.on_signal(0, {SIGUSR1, 1});
    arbiter.on_failure(0, failure_of(1, 7), start);
    EXPECT_EQ(arbiter.standing_orders(), (Orders{SignalCount{SIGUSR1, 1, true}, EndRanks{0, why(1, 7)}}));
}

TEST(RunArbiter, HangsAreShownAndEndedOnlyOnRequest) {
    const Laggard laggard{"10.0.0.1", 4711, "has not entered all-reduce 7"};
    Arbiter tell(rules(1));
    tell.on_hang({laggard}, std::nullopt);
    EXPECT_EQ(tell.take_orders(), (Orders{ShowStacks{}, laggard}));
    Arbiter end(rules(1));
    end.on_hang({laggard}, "hangs");
    EXPECT_EQ(end.take_orders(), (Orders{ShowStacks{}, laggard, EndRanks{0, "hangs"}}));
    end.on_hang({laggard}, "hangs");
    EXPECT_EQ(end.take_orders(), Orders{}) << "it is ending";
}

TEST(RunArbiter, NonsenseIsPassedOver) {
    Arbiter arbiter(rules(2));
    arbiter.on_failure(2, failure_of(9, 1), start);
    arbiter.on_ended(7, {});
    arbiter.on_lost(2, "nobody");
    arbiter.on_signal(9, {SIGTERM, 1});
    arbiter.on_absent(2);
    EXPECT_EQ(arbiter.take_orders(), Orders{});
}

} // namespace

} // namespace rdma_nccl::run
