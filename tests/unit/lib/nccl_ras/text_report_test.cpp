// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_ras/text_report.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/nccl_ras/judge.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::ras {
namespace {

using Texts = std::vector<std::string>;

/// Emulated after rasClientRunComms() in NCCL's src/ras/client_support.cc (2.26.2), not recorded.
std::string text_with(const std::string& errors, const std::string& warnings, const std::string& version = "2.26.2",
                      const std::string& status = "RUNNING") {
    return format_text(R"(NCCL version {} compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8  {:>8}  MISMATCH
    1         2         2       2-4         6         8   RUNNING      OK

Errors
======

{}Warnings
========

{})",
                       version, status, errors, warnings);
}

const std::string differ = "#0-0 (0000009d1c7e0b5a) MISMATCH\n"
                           "  Communicator ranks have different AllReduce operation counts\n";

std::string who(int rank) {
    return format_text("GPU {} managed by process {} on node 10.0.0.1\n", rank, 1000 + rank);
}

/// Ends what is said of lags in a text.
const std::string caveat =
    "before 2.28.7, NCCL does not say whether these ranks wait for each other, and whether its other "
    "collectives move on";

Texts lines(const std::string& earlier, const std::string& later) {
    return lines_of(judge(parse_report(earlier).value(), parse_report(later).value()), describe);
}
Texts lines(const std::string& text) {
    return lines(text, text);
}

TEST(RasText, NamesTheRankForWhichOthersWait) {
    const auto text = text_with("", differ +
                                        "  7 ranks have launched up to operation 5\n"
                                        "  Rank 3 has launched up to operation 4 -- " +
                                        who(3) + "\n");
    const auto report = parse_report(text);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_EQ(report->version, "2.26.2");
    EXPECT_EQ(report->communicators.at(0).size, 8U);
    EXPECT_EQ(report->communicators[0].ranks.at(0).member, (Member{3, "10.0.0.1", 1003, 3}));
    EXPECT_EQ(lines(text),
              (Texts{"communicator rank 3 (pid 1003 on 10.0.0.1) has not entered all-reduce 5 of communicator "
                     "0x9d1c7e0b5a (7 of 8 ranks wait)",
                     caveat}));
}

TEST(RasText, NamesSomeRanksAndOneThatHasLaunchedNothing) {
    EXPECT_EQ(
        lines(text_with("", differ + "  6 ranks have launched up to operation 1\n"
                                     "  2 ranks have not launched any operations\n"
                                     "  Rank 2 -- GPU 0 (NVML 2) managed by process 1002 on node fd00::1\n"
                                     "  Rank 3 -- [process information not found]\n\n")),
        (Texts{"communicator rank 2 (pid 1002 on fd00::1) has not entered all-reduce 1 of communicator 0x9d1c7e0b5a "
               "(6 of 8 ranks wait)",
               "communicator rank 3 (process not known) has not entered all-reduce 1 of communicator 0x9d1c7e0b5a "
               "(6 of 8 ranks wait)",
               caveat}));
    EXPECT_EQ(
        lines(text_with("", differ +
                                "  7 ranks have launched up to operation 9\n"
                                "  Rank 4 has not launched any operations -- " +
                                who(4))),
        (Texts{"communicator rank 4 (pid 1004 on 10.0.0.1) has not entered all-reduce 1 of communicator 0x9d1c7e0b5a "
               "(7 of 8 ranks wait)",
               caveat}));
}

TEST(RasText, CountsRanksThatNcclDoesNotName) {
    EXPECT_EQ(lines(text_with("", differ + "  4 ranks have launched up to operation 5\n"
                                           "  4 ranks have launched up to operation 4\n\n")),
              (Texts{"4 ranks, which NCCL before 2.28.7 does not name, have not entered all-reduce 5 of communicator "
                     "0x9d1c7e0b5a (4 of 8 ranks wait)",
                     caveat}));
}

TEST(RasText, SeesOfEachFunctionWhoLags) {
    const auto text = text_with("", differ +
                                        "  7 ranks have launched up to operation 5\n"
                                        "  Rank 3 has launched up to operation 4 -- " +
                                        who(3) +
                                        "\n  Communicator ranks have different Broadcast operation counts\n"
                                        "  6 ranks have launched up to operation 2\n"
                                        "  2 ranks have launched up to operation 1\n"
                                        "  Rank 4 -- " +
                                        who(4) + "  Rank 5 -- " + who(5) + "\n");
    const auto verdict = judge(parse_report(text).value(), parse_report(text).value());
    ASSERT_EQ(verdict.lags.size(), 2U);
    EXPECT_EQ(verdict.lags[0].function, "Broadcast");
    EXPECT_EQ(verdict.lags[0].members.size(), 2U);
    EXPECT_EQ(verdict.lags[0].waiting, 6U);
    EXPECT_EQ(verdict.lags[1].function, "AllReduce");
    EXPECT_EQ(verdict.lags[1].members.size(), 1U);
}

TEST(RasText, IsOfNccl224Too) {
    EXPECT_EQ(
        lines(text_with("#0-0 (0000009d1c7e0b5a) INCOMPLETE\n  Missing communicator data from 2 ranks\n"
                        "  The missing ranks: 6,7\n\n",
                        "#0-0 (0000009d1c7e0b5a) MISMATCH\n"
                        "  Communicator ranks have different collective operation counts\n"
                        "  5 ranks have launched up to operation 5\n"
                        "  Rank 3 has launched up to operation 4 -- " +
                            who(3) + "\n",
                        "2.24.3")),
        (Texts{"communicator rank 6 (process not known) does not answer NCCL's RAS, or has left (communicator "
               "0x9d1c7e0b5a)",
               "communicator rank 7 (process not known) does not answer NCCL's RAS, or has left (communicator "
               "0x9d1c7e0b5a)",
               "communicator rank 3 (pid 1003 on 10.0.0.1) has not entered collective 5 of communicator 0x9d1c7e0b5a "
               "(5 of 8 ranks wait)",
               caveat}));
}

TEST(RasText, KnowsWhoIsDeadOrDoesNotAnswerOrHasLeft) {
    const auto errors = "INCOMPLETE\n  Missing communicator data from 1 job process\n"
                        "  Process 1001 on node 10.0.0.1 managing GPU 1\n\n"
                        "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
                        "  Process 1002 on node 10.0.0.1 managing GPU 2\n\n"
                        "#0-0 (0000009d1c7e0b5a) INCOMPLETE\n  Missing communicator data from 2 ranks\n"
                        "  Rank 1 -- " +
                        who(1) + "  Rank 2 -- " + who(2) + "\n";
    const std::string warnings = "#0-0 (0000009d1c7e0b5a) MISMATCH\n  Communicator ranks have different status\n"
                                 "  5 ranks have status RUNNING\n  Rank 3 has status NOCOMM -- " +
                                 who(3);
    EXPECT_EQ(
        lines(text_with(errors, warnings)),
        (Texts{"communicator rank 2 (pid 1002 on 10.0.0.1) is dead, as NCCL's RAS says (communicator 0x9d1c7e0b5a)",
               "communicator rank 1 (pid 1001 on 10.0.0.1) does not answer NCCL's RAS (communicator 0x9d1c7e0b5a)",
               "communicator rank 3 (pid 1003 on 10.0.0.1) has left or not joined (communicator 0x9d1c7e0b5a)",
               "all ranks have launched equally many collectives of NCCL; before 2.28.7 it does not say whether they "
               "launch more"}));
}

TEST(RasText, BlamesNobodyWhileACommunicatorIsBeingDestroyed) {
    const auto text = text_with("", "#0-0 (0000009d1c7e0b5a) MISMATCH\n  Communicator ranks have different status\n"
                                    "  6 ranks have status RUNNING\n  2 ranks have status FINALIZE\n"
                                    "  Rank 1 -- " +
                                        who(1) + "  Rank 2 -- " + who(2) +
                                        "  Communicator ranks have different AllReduce operation counts\n"
                                        "  7 ranks have launched up to operation 5\n"
                                        "  Rank 3 has launched up to operation 4 -- " +
                                        who(3) + "\n");
    EXPECT_EQ(lines(text), (Texts{"communicators are being created or destroyed"}));
}

TEST(RasText, MovesIfCountsOrWarningsChange) {
    const auto at = [](int most) {
        return text_with("", differ + format_text("  4 ranks have launched up to operation {}\n"
                                                  "  4 ranks have launched up to operation 4\n\n",
                                                  most));
    };
    const auto equal = text_with("", "");
    const Texts moving{"NCCL's collectives move on: ranks launch new ones"};
    EXPECT_EQ(lines(at(5), at(6)), moving);
    EXPECT_EQ(lines(at(5), equal), moving);
    EXPECT_EQ(lines(equal, at(5)), moving);
    EXPECT_EQ(lines(equal),
              (Texts{"all ranks have launched equally many collectives of NCCL; before 2.28.7 it does not say "
                     "whether they launch more"}));
    const auto verdict = judge(parse_report(equal).value(), parse_report(equal).value());
    EXPECT_FALSE(verdict.blames_any() || verdict.moved);
}

TEST(RasText, KnowsAJobWithoutCommunicators) {
    EXPECT_EQ(
        lines("NCCL version 2.26.2 compiled with CUDA 12.8\n\nNo communicator data collected!\n\nWarnings\n========\n"),
        (Texts{"NCCL has no communicator"}));
}

TEST(RasText, LeavesOutTwoCommunicatorsOfOneHash) {
    const auto with_id = [](const std::string& id) {
        return "#" + id + differ.substr(differ.find(' ')) + "  7 ranks have launched up to operation 5\n" +
               "  Rank 3 has launched up to operation 4 -- " + who(3) + "\n";
    };
    EXPECT_EQ(
        lines(text_with("", with_id("0-0") + with_id("0-1"))),
        (Texts{"all ranks have launched equally many collectives of NCCL; before 2.28.7 it does not say whether they "
               "launch more",
               "2 communicators are not compared: some have the same hash"}));
}

TEST(RasText, DoesNotTakeARankThatIsAheadForOneThatLags) {
    EXPECT_EQ(
        lines(text_with("", differ +
                                "  6 ranks have launched up to operation 4\n"
                                "  Rank 3 has launched up to operation 5 -- [process information not found]\n"
                                "  Rank 4 has launched up to operation 3 -- " +
                                who(4))),
        (Texts{"communicator rank 4 (pid 1004 on 10.0.0.1) has not entered all-reduce 4 of communicator 0x9d1c7e0b5a "
               "(7 of 8 ranks wait)",
               caveat}));
}

TEST(RasText, TakesARankThatComesOrGoesForNoCollective) {
    const auto missing = text_with(
        "#0-0 (0000009d1c7e0b5a) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 3 -- " + who(3) + "\n",
        "");
    const auto lagging = text_with("", differ +
                                           "  7 ranks have launched up to operation 5\n"
                                           "  Rank 3 has launched up to operation 4 -- " +
                                           who(3) + "\n");
    const auto equal = text_with("", "");
    for (const auto& [earlier, later] :
         {std::pair(equal, missing), {missing, equal}, {missing, lagging}, {lagging, missing}}) {
        const auto verdict = judge(parse_report(earlier).value(), parse_report(later).value());
        EXPECT_FALSE(verdict.moved);
        EXPECT_EQ(verdict.state, State::Changing);
    }
}

TEST(RasText, SeesACommunicatorThatIsNew) {
    const auto none = "NCCL version 2.26.2 compiled with CUDA 12.8\n\nNo communicator data collected!\n\nWarnings\n";
    const auto verdict = judge(parse_report(none).value(), parse_report(text_with("", differ)).value());
    EXPECT_EQ(verdict.state, State::Changing);
    EXPECT_TRUE(verdict.moved);
}

TEST(RasText, BlamesNobodyIfAllRanksDestroyTheirCommunicator) {
    EXPECT_EQ(lines(text_with("",
                              differ +
                                  "  7 ranks have launched up to operation 5\n"
                                  "  Rank 3 has launched up to operation 4 -- " +
                                  who(3) + "\n",
                              "2.26.2", "FINALIZE")),
              (Texts{"communicators are being created or destroyed"}));
    EXPECT_EQ(lines(text_with("", "#0-0 (0000009d1c7e0b5a) MISMATCH\n  Communicator ranks have different status\n"
                                  "  4 ranks have status RUNNING\n  4 ranks have status NOCOMM\n\n")),
              (Texts{"communicators are being created or destroyed"}));
}

TEST(RasText, LeavesOutRanksThatTheirCommunicatorCannotHave) {
    EXPECT_EQ(
        lines(text_with("#0-0 (0000009d1c7e0b5a) INCOMPLETE\n  Rank 478342144 -- [process information not found]\n"
                        "#7-0 (0000000000000001) INCOMPLETE\n  Rank 1 -- [process information not found]\n",
                        differ +
                            "  7 ranks have launched up to operation 5\n"
                            "  Rank 8 has launched up to operation 4 -- " +
                            who(3)))
            .size(),
        1U);
}

TEST(RasText, DropsARankWhoseNumberMayBeCut) {
    std::string ranks = "6";
    while (ranks.size() < 1020) {
        ranks += ",6";
    }
    const auto report = parse_report(
        text_with("#0-0 (0000009d1c7e0b5a) INCOMPLETE\n  The missing ranks: " + ranks + ",1\n", "", "2.24.3"));
    ASSERT_EQ(report.value().communicators.at(0).missing.size(), 1U);
    EXPECT_EQ(report->communicators[0].missing[0].member.rank, 6U);
    EXPECT_FALSE(report->communicators[0].missing[0].answers());
}

TEST(RasText, TakesNoMoreCommunicatorsThanAJobCanHave) {
    std::string many;
    for (unsigned i = 0; i < 64001; ++i) {
        many += format_text("#{}-0 ({:016x}) INCOMPLETE\n  Rank 1 -- [process information not found]\n", i, i + 1);
    }
    EXPECT_EQ(parse_report(text_with(many, "")).value().communicators.size(), 64000U);
}

TEST(RasText, SkipsALineThatNcclDoesNotWrite) {
    const auto text = [](const std::string& end) {
        return text_with("#0-0 (0000009d1c7e0b5a) INCOMPLETE\n  Rank 3 -- " + who(3) + "  Rank 4 -- " + end + who(4),
                         "");
    };
    EXPECT_EQ(parse_report(text("")).value().communicators.at(0).missing.size(), 2U);
    EXPECT_EQ(parse_report(text(std::string(2000, ' '))).value().communicators.at(0).missing.size(), 1U);
}

TEST(RasText, RefusesWhatIsCutOff) {
    const auto text = text_with("", differ);
    for (const std::size_t size : {text.size() - 1, text.find("Warnings")}) {
        EXPECT_NE(parse_report(text.substr(0, size)).error().message.find("cut off"), std::string::npos) << size;
    }
}

} // namespace
} // namespace rdma_nccl::ras
