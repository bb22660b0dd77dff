// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_ras/report.h"
#include "tests/unit/ras_reports.h"

#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl::ras {
namespace {

TEST(RasReport, HasRanksAndCounts) {
    const auto report = parse_report(report_json({communicator_json(
        "0xab", {{.rank = 0, .all_reduce = 7}, {.rank = 1, .all_reduce = 6, .all_gather = 2, .init_state = 7}})}));
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_EQ(report->version, "2.30.7");
    ASSERT_EQ(report->communicators.size(), 1U);
    const auto& communicator = report->communicators[0];
    EXPECT_EQ(communicator.hash, "0xab");
    EXPECT_EQ(communicator.secondary, "0x1:0x2");
    EXPECT_EQ(communicator.size, 2U);
    ASSERT_EQ(communicator.ranks.size(), 2U);
    EXPECT_EQ(communicator.ranks[1].member, (Member{1, "10.0.0.1", 1001, 0}));
    EXPECT_FALSE(communicator.settled); // ncclInProgress
    EXPECT_EQ(communicator.ranks[1].counts, (std::array<std::optional<std::uint64_t>, 6>{3, 0, 2, 0, 6, 0}));
}

TEST(RasReport, ReadsMissingRanksEvenWithoutTheCommaThatNccl2289Forgets) {
    for (const char* const comma : {",", ""}) {
        const auto report = parse_report(report_json({communicator_json(
            "0xab", {{.rank = 0}}, {{.rank = 1, .unresponsive = true}, {.rank = 2, .dead = true}}, comma)}));
        ASSERT_TRUE(report.has_value()) << report.error().message;
        const auto& missing = report->communicators.at(0).missing;
        ASSERT_EQ(missing.size(), 2U);
        EXPECT_EQ(missing[0].member, (Member{1, "10.0.0.2", 2001, 0}));
        EXPECT_TRUE(missing[0].unresponsive);
        EXPECT_FALSE(missing[0].dead);
        EXPECT_TRUE(missing[1].dead);
    }
}

TEST(RasReport, RefusesWhatItIsNot) {
    EXPECT_NE(parse_report("NCCL is here\n").error().message.find("no JSON"), std::string::npos);
    EXPECT_NE(parse_report("[]").error().message.find("unknown form"), std::string::npos);
    EXPECT_NE(parse_report(R"({"nccl_version": 2, "communicators": []})").error().message.find("unknown form"),
              std::string::npos);
    EXPECT_NE(parse_report(std::string(most_report_bytes + 1, ' ')).error().message.find("longer"), std::string::npos);
}

TEST(RasReport, NamesArePrintable) {
    const auto report =
        parse_report(report_json({communicator_json(R"(0xa\u001b[31m)", {{.rank = 0, .host = R"(10.0\n)"}})}));
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_EQ(report->communicators[0].hash, "0xa?[31m");
    EXPECT_EQ(report->communicators[0].ranks[0].member.host, "10.0?");
}

} // namespace
} // namespace rdma_nccl::ras
