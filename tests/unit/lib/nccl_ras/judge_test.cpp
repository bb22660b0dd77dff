// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_ras/judge.h"
#include "tests/unit/ras_reports.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl::ras {
namespace {

using Texts = std::vector<std::string>;

Report report_of(const Texts& communicators) {
    return parse_report(report_json(communicators)).value();
}
Texts lines(const Report& earlier, const Report& later) {
    return lines_of(judge(earlier, later), describe);
}
/// Both reports are the same: nothing moves.
Texts lines(const Texts& communicators) {
    const auto report = report_of(communicators);
    return lines(report, report);
}

TEST(RasJudge, NamesTheRankForWhichOthersWait) {
    const auto report = report_of({communicator_json(
        "0xab", {{.rank = 0, .all_reduce = 4711}, {.rank = 1, .all_reduce = 4710}, {.rank = 2, .all_reduce = 4711}})});
    const auto verdict = judge(report, report);
    EXPECT_EQ(verdict.state, State::Lagging);
    ASSERT_EQ(verdict.lags.size(), 1U);
    EXPECT_EQ(verdict.lags[0].operation, 4711U);
    EXPECT_EQ(verdict.lags[0].waiting, 2U);
    EXPECT_EQ(lines_of(
                  verdict,
                  [](const Member& member) {
                      return Described{format_text("rank {} on n02", member.rank), "state T (stopped)"};
                  },
                  "62 s"),
              (Texts{"rank 1 on n02 has not entered all-reduce 4711 of communicator 0xab (2 of 3 ranks wait 62 s)",
                     "  its process: state T (stopped)"}));
}

TEST(RasJudge, HasTheUsersNamesOfCommunicators) {
    const auto report = report_of({communicator_json("0x9d1c7e0b5a", {{.rank = 0, .all_reduce = 5}, {.rank = 1}},
                                                     {{.rank = 2, .unresponsive = true}})});
    auto verdict = judge(report, report);
    add_names(verdict, {{0xab, "tp"}, {0x9d1c7e0b5a, "dp"}});
    EXPECT_EQ(lines_of(verdict, describe),
              (Texts{"communicator rank 2 (pid 2002 on 10.0.0.2) does not answer NCCL's RAS (communicator \"dp\" "
                     "0x9d1c7e0b5a)",
                     "communicator rank 1 (pid 1001 on 10.0.0.1) has not entered all-reduce 1 of communicator \"dp\" "
                     "0x9d1c7e0b5a (1 of 3 ranks wait)"}));
}

TEST(RasJudge, SaysThatOthersMoveWhereOneLags) {
    const auto at = [](std::uint64_t count) {
        return report_of({communicator_json("0xab", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = 4}}),
                          communicator_json("0xcd", {{.rank = 0, .all_reduce = count}})});
    };
    EXPECT_FALSE(judge(at(8), at(8)).moved);
    EXPECT_TRUE(judge(at(8), at(9)).moved);
    EXPECT_EQ(judge(at(8), at(9)).state, State::Lagging);
    EXPECT_EQ(lines(at(8), at(9)).back(), "NCCL's other collectives move on: the job may only be slow");
}

TEST(RasJudge, WhateverRanksDoIsMovement) {
    const auto at = [](std::uint64_t middle, bool settled = true) {
        return report_of({communicator_json("0xab", {{.rank = 0, .all_reduce = 9},
                                                     {.rank = 1, .all_reduce = middle},
                                                     {.rank = 2, .all_reduce = 4, .init_state = settled ? 0 : 7}})});
    };
    EXPECT_FALSE(judge(at(5), at(5)).moved);
    EXPECT_TRUE(judge(at(5), at(6)).moved);
    EXPECT_TRUE(judge(at(5, false), at(5)).moved);
    EXPECT_FALSE(judge(at(5, false), at(5, false)).moved) << "it is still being created";
    EXPECT_TRUE(judge(at(5), report_of({})).moved);
    EXPECT_TRUE(judge(report_of({}), at(5)).moved);
}

TEST(RasJudge, WaitsOnlyWhereNothingMoves) {
    const auto first =
        report_of({communicator_json("0xab", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = 4}})});
    const auto second =
        report_of({communicator_json("0xab", {{.rank = 0, .all_reduce = 9}, {.rank = 1, .all_reduce = 8}})});
    EXPECT_EQ(lines(first, second), Texts{"NCCL's collectives move on: ranks launch new ones"});
    const auto same_spread =
        report_of({communicator_json("0xcd", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = 4}})});
    EXPECT_EQ(judge(first, same_spread).state, State::Changing); // another communicator
}

TEST(RasJudge, EqualCountsAreNoProofOfAnything) {
    EXPECT_EQ(
        lines({communicator_json("0xab", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = 5}})}),
        Texts{"all ranks have launched the same collectives of NCCL: one of these is in flight, or NCCL is idle"});
    EXPECT_EQ(lines(Texts{}), Texts{"NCCL has no communicator"});
}

TEST(RasJudge, LeavesOutCommunicatorsThatAreCreatedOrDestroyed) {
    EXPECT_EQ(lines({communicator_json("0xab",
                                       {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = 4, .init_state = 7}})}),
              Texts{"communicators are being created or destroyed"});
    EXPECT_EQ(lines({communicator_json("0xab", {{.rank = 0, .all_reduce = 5, .destroy_flag = true}, {.rank = 1}})}),
              Texts{"communicators are being created or destroyed"});
}

TEST(RasJudge, FollowsAChainToTheRankThatWaitsForNobody) {
    // Rank 1 of 0xab is rank 0 of 0xcd: it has launched what its peer there has not.
    const auto found = lines({communicator_json("0xab", {{.rank = 0, .all_reduce = 8}, {.rank = 1, .all_reduce = 7}}),
                              communicator_json("0xcd", {{.rank = 0, .all_gather = 3, .pid = 1001},
                                                         {.rank = 1, .all_gather = 2, .pid = 1005}})});
    EXPECT_EQ(
        found,
        Texts{"communicator rank 1 (pid 1005 on 10.0.0.1) has not entered all-gather 3 of communicator 0xcd (1 of 2 "
              "ranks wait)"});
}

TEST(RasJudge, SeesRanksThatWaitForEachOther) {
    const auto report = report_of({communicator_json(
        "0xab", {{.rank = 0, .all_reduce = 8, .all_gather = 2}, {.rank = 1, .all_reduce = 7, .all_gather = 3}})});
    const auto verdict = judge(report, report);
    EXPECT_TRUE(verdict.circular);
    const auto found = lines_of(verdict, describe);
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(
        found[0],
        "communicator rank 0 (pid 1000 on 10.0.0.1) has not entered all-gather 3 of communicator 0xab (1 of 2 ranks "
        "wait)");
    EXPECT_EQ(found[2], "these ranks wait for each other: do they call collectives in different orders?");
}

TEST(RasJudge, NamesLostRanksFirstAndEachOnce) {
    const Texts communicators{
        communicator_json("0xab", {{.rank = 0, .all_reduce = 8}, {.rank = 1, .all_reduce = 7}},
                          {{.rank = 2}, {.rank = 3, .unresponsive = true}, {.rank = 4, .dead = true}}),
        communicator_json("0xcd", {{.rank = 0}}, {{.rank = 4, .dead = true}})};
    const auto found = lines(communicators);
    ASSERT_EQ(found.size(), 4U);
    EXPECT_EQ(found[0], "communicator rank 4 (pid 2004 on 10.0.0.2) is dead, as NCCL's RAS says (communicator 0xab)");
    EXPECT_EQ(found[1], "communicator rank 3 (pid 2003 on 10.0.0.2) does not answer NCCL's RAS (communicator 0xab)");
    EXPECT_TRUE(found[2].starts_with("communicator rank 1 (pid 1001")) << found[2];
    EXPECT_EQ(found[3], "communicator rank 2 (pid 2002 on 10.0.0.2) has left or not joined (communicator 0xab)");
}

TEST(RasJudge, ARankThatAnsweredLateHasNotMoved) {
    const auto first =
        report_of({communicator_json("0xab", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = 4}})});
    const auto late = report_of({communicator_json(
        "0xab", {{.rank = 0, .all_reduce = 5}, {.rank = 1, .all_reduce = 4}, {.rank = 2, .all_reduce = 3}})});
    const auto verdict = judge(first, late);
    EXPECT_EQ(verdict.state, State::Lagging);
    ASSERT_EQ(verdict.lags.size(), 1U);
    EXPECT_EQ(verdict.lags[0].members.at(0).rank, 1U);
}

TEST(RasJudge, ProcessesThatNcclDoesNotKnowAreNotOne) {
    const auto found = lines({communicator_json(
        "0xab", {{.rank = 0, .all_reduce = 5, .pid = -1}, {.rank = 1, .all_reduce = 4, .pid = -1}})});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(found[0].starts_with("communicator rank 1 ")) << found[0];
}

TEST(RasJudge, NamesAFewAndCountsTheOthers) {
    std::vector<EmulatedRank> ranks{{.rank = 0, .all_reduce = 1}};
    for (unsigned rank = 1; rank <= most_named + 2; ++rank) {
        ranks.push_back({.rank = rank});
    }
    const auto found = lines({communicator_json("0xab", ranks)});
    ASSERT_EQ(found.size(), most_named + 1);
    EXPECT_EQ(found.back(), "  and 2 more");
}

} // namespace
} // namespace rdma_nccl::ras
