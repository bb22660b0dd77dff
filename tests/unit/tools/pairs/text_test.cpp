// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/pairs_report.h"
#include "tools/pairs/output.h"

#include <gtest/gtest.h>
#include <string_view>

namespace rdma_nccl::pairs {
namespace {

double even(unsigned /*from*/, unsigned /*to*/) {
    return 388;
}

std::string table(const Report& report, TextOptions options = {}, double median = 388) {
    return heat_table(report, test::plain_verdict(report, median), options);
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t start = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
        lines.push_back(text.substr(start, end - start));
        start = end + 1;
    }
    return lines;
}

/// Characters, not bytes.
std::size_t width_of(std::string_view line) {
    std::size_t width = 0;
    for (const char c : line) {
        width += (static_cast<unsigned char>(c) & 0xc0U) == 0x80U ? 0 : 1;
    }
    return width;
}

TEST(PairsText, FewNodesGetNumbers) {
    auto report = test::all_pairs_report(3, [](unsigned from, unsigned to) { return from == 2 ? 39.52 : 388.4 + to; });
    report.results[0].forward.reset();
    report.results[0].problem = "no answer";
    EXPECT_EQ(table(report), "Gb/s, row sends to column\n"
                             "      n01   n02   n03\n"
                             "n01     -  fail   390\n"
                             "n02  fail     -   390\n"
                             "n03  39.5  39.5     -\n");
}

TEST(PairsText, TheSlowestRailIsShown) {
    auto report = test::all_pairs_report(2, even);
    for (auto& node : report.nodes) {
        node.rails.push_back(test::rail(2));
    }
    auto slow = report.results[0];
    slow.pairing = {0, 1, 1, 1};
    slow.forward->gbps = 100;
    report.results.push_back(slow);
    EXPECT_EQ(table(report), "Gb/s, row sends to column, the slowest of 2 rails\n"
                             "      n01   n02\n"
                             "n01     -   100\n"
                             "n02   388     -\n");
}

TEST(PairsText, LongNamesAreCutToWhatDiffers) {
    auto report = test::all_pairs_report(2, even);
    report.nodes[0].name = "cluster-gpu-007";
    report.nodes[1].name = "cluster-gpu-012";
    EXPECT_EQ(table(report), "Gb/s, row sends to column\n"
                             "                  007   012\n"
                             "cluster-gpu-007     -   388\n"
                             "cluster-gpu-012   388     -\n");
}

TEST(PairsText, MoreNodesGetPercents) {
    const auto text = table(
        test::all_pairs_report(16, [](unsigned from, unsigned to) { return from == 3 && to == 5 ? 194.0 : 388.0; }));
    const auto lines = lines_of(text);
    EXPECT_EQ(lines[0], "% of the median 388 Gb/s, row sends to column");
    EXPECT_EQ(lines[1], "         1   2   3   4   5   6   7   8   9  10  11  12  13  14  15  16");
    EXPECT_EQ(lines[5], " 4 n04 100 100 100   - 100  50 100 100 100 100 100 100 100 100 100 100");
}

TEST(PairsText, ManyNodesGetBlocks) {
    auto report = test::all_pairs_report(64, [](unsigned from, unsigned to) {
        return from == 3 && to == 5 ? 194.0 : from == 4 ? 10 : 388;
    });
    report.results[0].problem = "no answer";
    const auto lines = lines_of(table(report));
    ASSERT_EQ(lines.size(), 67U);
    EXPECT_EQ(lines[1].substr(0, 27), "       1        10        2");
    EXPECT_EQ(lines[2].substr(0, 27), " 1 n01 \\x██████"); // a block has three bytes
    EXPECT_EQ(lines[5].substr(0, 7 + 3 * 3 + 1 + 3 + 3), " 4 n04 ███\\█▅");
    EXPECT_EQ(lines[6].substr(0, 13), " 5 n05 ▁▁");
    EXPECT_EQ(lines[66], "█ 90 % of the median 388 Gb/s or more, ▄ half of it, x failed");
}

TEST(PairsText, DigitsWhereThereIsNoUnicode) {
    const auto report = test::all_pairs_report(64, [](unsigned from, unsigned to) {
        return from == 3 && to == 5 ? 194.0 : from == 4 ? 10 : 388;
    });
    const auto lines = lines_of(table(report, {.utf8 = false}));
    EXPECT_EQ(lines[5].substr(0, 17), " 4 n04 ###\\#5####");
    EXPECT_EQ(lines[6].substr(0, 17), " 5 n05 0000\\00000");
}

TEST(PairsText, WhatDoesNotFitIsFolded) {
    const auto report =
        test::all_pairs_report(301, [](unsigned from, unsigned to) { return from == 300 && to == 0 ? 39.0 : 388.0; });
    const auto lines = lines_of(table(report, {.utf8 = false}));
    EXPECT_EQ(lines[0], "Row sends, column receives; a block for 5 x 5 nodes, the worst of them");
    ASSERT_EQ(lines.size(), 2U + 61 + 1);
    EXPECT_EQ(lines[62].substr(0, 17), "61 n301       1##");
    EXPECT_EQ(lines[2].substr(0, 17), " 1 n[01-05]   ###");
}

TEST(PairsText, NoTableIsWiderThanTheTerminal) {
    for (const unsigned nodes : {1U, 2U, 5U, 12U, 13U, 19U, 20U, 70U, 99U, 100U, 400U}) {
        for (const unsigned columns : {40U, 80U, 200U}) {
            const auto text = table(test::all_pairs_report(nodes, even), {.columns = columns});
            const auto lines = lines_of(text);
            for (std::size_t i = 1; i + 1 < lines.size(); ++i) { // beside title and legend
                EXPECT_LE(width_of(lines[i]), columns) << nodes << "\n" << lines[i];
            }
        }
    }
}

TEST(PairsText, ATerminalOfNoWidthIsSurvived) {
    for (const unsigned nodes : {0U, 1U, 3U, 100U}) {
        EXPECT_NE(table(test::all_pairs_report(nodes, even), {.columns = 1}), "");
    }
}

TEST(PairsText, ColoursOnlyWhenAsked) {
    const auto report = test::all_pairs_report(
        3, [](unsigned from, unsigned to) { return from == 0 ? (to == 1 ? 300.0 : 100.0) : 388.0; });
    EXPECT_EQ(table(report).find('\x1b'), std::string::npos);
    const auto text = table(report, {.colours = true});
    EXPECT_NE(text.find("  \x1b[33m300\x1b[0m   \x1b[31m100\x1b[0m\n"), std::string::npos) << text;
    EXPECT_NE(text.find("\x1b[32m388\x1b[0m"), std::string::npos) << text;
}

TEST(PairsText, ShortNumbers) {
    EXPECT_EQ(short_gbps(0), "0.00");
    EXPECT_EQ(short_gbps(9.994), "9.99");
    EXPECT_EQ(short_gbps(9.996), "10.0");
    EXPECT_EQ(short_gbps(99.96), "100");
    EXPECT_EQ(short_gbps(388.4), "388");
    EXPECT_EQ(short_gbps(3190), "3190");
}

TEST(PairsText, TheWholeOfAFewPairs) {
    auto report = test::all_pairs_report(2, even);
    report.with_tcp = true;
    report.results[0].forward->tcp_gbps = 30.5;
    report.results[0].backward->tcp_gbps = 31;
    report.results[0].notes = {"path MTU 1024: n01 has 4096, n02 has 1024"};
    report.measure.gpu = report.on_gpu = true;
    auto verdict = test::plain_verdict(report, 388);
    verdict.notes = {"2 nodes: cannot tell which side of a pair is slow, that takes 4"};
    EXPECT_EQ(format_plain(report, verdict, {}),
              "2 nodes, all pairs: 1 of 1 pairings in 42 s; 2 s each way, writes of 1 MiB on 4 queue pairs, memory of "
              "GPUs\n"
              "\n"
              "FROM          TO            ->   <-   <->  us    MTU   DATA     COUNTED  TCP -> / <-\n"
              "n01 mlx5_1:1  n02 mlx5_1:1  388  388  776  2.10  4096  correct  101 %    30.5 / 31.0\n"
              "  n01 mlx5_1:1 - n02 mlx5_1:1: path MTU 1024: n01 has 4096, n02 has 1024\n"
              "\n"
              "Bandwidth: median 388 Gb/s one way\n"
              "Latency: median 2.10 us, 2.10 to 2.10 (half a round trip of 8 bytes)\n"
              "Data: correct in 1 of 1 pairings\n"
              "Counters of the ports saw 101 to 102 % of the bytes sent\n"
              "TCP between the same ports: median 31.0 Gb/s; RDMA is 12.5 times as fast\n"
              "\n"
              "Note: 2 nodes: cannot tell which side of a pair is slow, that takes 4\n"
              "Verdict: good\n");
}

TEST(PairsText, FaultsAndSuspectsAtTheEnd) {
    const auto report = test::all_pairs_report(8, even);
    auto verdict = test::plain_verdict(report, 388, 2);
    verdict.faults = {{FaultKind::Node, {2}, {}, "n03 is slow"}, {FaultKind::Failed, {3}, {}, "n04 is gone"}};
    verdict.suspects = {2, 3, 6};
    const auto text = format_plain(report, verdict, {});
    EXPECT_NE(text.find("\n\nn03 is slow\nn04 is gone\nVerdict: failed; suspects: n[03-04,07]\n"), std::string::npos)
        << text;
}

TEST(PairsText, EndedEarlyIsSaidFirst) {
    auto report = test::all_pairs_report(4, even);
    report.ended_early = "interrupted by SIGINT";
    report.planned = 12;
    const auto lines = lines_of(format_plain(report, test::plain_verdict(report, 388), {}));
    EXPECT_EQ(lines[0].find("4 nodes, all pairs: 6 of 12 pairings in 42 s"), 0U);
    EXPECT_EQ(lines[1], "Ended early: interrupted by SIGINT. The results below are incomplete.");
}

TEST(PairsText, TheSlowestOfManyAreNamed) {
    const auto report = test::all_pairs_report(8, [](unsigned from, unsigned to) {
        return from == 1 ? 200.0 + to : to == 1 ? 300.0 : 388.0;
    });
    const auto text = format_plain(report, test::plain_verdict(report, 388, 1), {.most_worst = 2});
    EXPECT_NE(text.find("Slowest ways, 2 of 14\n"
                        "FROM          TO            Gb/s  OF MEDIAN  NOTES\n"
                        "n02 mlx5_1:1  n01 mlx5_1:1  200   52 %\n"
                        "n02 mlx5_1:1  n03 mlx5_1:1  202   52 %\n"),
              std::string::npos)
        << text;
}

TEST(PairsText, NothingMeasured) {
    Report report;
    report.schedule = "all";
    report.nodes = {test::node_with_rails(0), test::node_with_rails(1)};
    auto verdict = test::plain_verdict(report, 0, 3);
    verdict.median_gbps.reset();
    EXPECT_NE(format_plain(report, verdict, {}).find("Verdict: nothing measured\n"), std::string::npos);
}

TEST(PairsText, WhatNodesSayCannotChangeTheTerminal) {
    auto report = test::all_pairs_report(2, even);
    report.results[0].problem = "\x1b[2J";
    report.results[0].notes = {"\x1b[2J\n"};
    auto verdict = test::plain_verdict(report, 388);
    verdict.faults = {{FaultKind::Link, {0, 1}, {}, "\x1b[2J"}};
    EXPECT_EQ(format_plain(report, verdict, {}).find('\x1b'), std::string::npos);
}

} // namespace
} // namespace rdma_nccl::pairs
