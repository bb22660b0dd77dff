// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tests/unit/verdict_values.h"
#include "tools/bench/output.h"
#include "tools/bench/rank_layout.h"

#include <gtest/gtest.h>

#include <functional>

namespace rdma_nccl::bench {

namespace {

ResultRow row(std::uint64_t bytes, double busbw, std::uint64_t wrong = 0) {
    const Times times{static_cast<double>(bytes) / busbw / 1000, 1, 2, busbw / 1.875, busbw, wrong};
    return {"all_reduce", bytes, bytes / 4, "float", "sum", -1, times, times};
}

Run run(RunKind kind, double busbw, std::uint64_t rdma, std::uint64_t sockets, unsigned ranks = 16) {
    auto run = make_run(kind, ranks);
    run.nodes = 2;
    run.library = "NCCL 2.28.9 (libnccl.so.2)";
    run.rows = {row(1 << 20, busbw / 2), row(1 << 30, busbw)};
    run.verdict = judge_step({test::node(rdma, sockets, "n01"), test::node(rdma, sockets, "n02")}, {});
    return run;
}

/// As in the table that this is for: 122.3 Gb/s against 29.1 at 16 GPUs.
Report good_report() {
    Report report;
    report.started = "2026-11-22T10:00:00.000+00:00";
    report.seconds = 12;
    report.nodes = {"n01", "n02"};
    report.gpus = {"a GPU"};
    report.runs = {run(RunKind::AsItIs, 15.25, 8 * test::gib, 0), run(RunKind::NoRdma, 3.6375, 0, 8 * test::gib),
                   run(RunKind::AsItIsAgain, 15.325, 8 * test::gib, 0)};
    return report;
}

std::string notes_of(const Report& report) {
    const auto summary = summarize(report);
    std::string text;
    for (const auto& note : summary.lines.at(0).notes) {
        text += note + "; ";
    }
    return text;
}

TEST(BenchSummary, WithAndWithout) {
    const auto summary = summarize(good_report());
    ASSERT_EQ(summary.lines.size(), 1U);
    const auto& line = summary.lines[0];
    EXPECT_EQ(line.bytes, std::uint64_t{1} << 30) << "the greatest size";
    EXPECT_NEAR(line.with_rdma->busbw, 122.3, 0.01);
    EXPECT_NEAR(line.without_rdma->busbw, 29.1, 0.01);
    EXPECT_NEAR(*line.ratio, 4.203, 0.001);
    EXPECT_EQ(line.notes, (std::vector<std::string>{"RDMA used: 100.0 %"}));
    EXPECT_EQ(summary.exit_code, 0);
}

TEST(BenchSummary, AFigureThatIsNotOneOfRdma) {
    auto report = good_report();
    report.runs[0] = run(RunKind::AsItIs, 3.6, 0, 8 * test::gib);
    report.runs[2] = run(RunKind::AsItIsAgain, 3.6, 0, 8 * test::gib);
    EXPECT_FALSE(summarize(report).lines[0].ratio);
    EXPECT_EQ(summarize(report).exit_code, 2);
    EXPECT_TRUE(notes_of(report).starts_with("A DID NOT USE RDMA")) << notes_of(report);
    report.runs[0] = run(RunKind::AsItIs, 9, 4 * test::gib, 4 * test::gib);
    report.runs[2] = run(RunKind::AsItIsAgain, 9, 4 * test::gib, 4 * test::gib);
    EXPECT_TRUE(notes_of(report).starts_with("A used RDMA in part: 50.0 %")) << notes_of(report);
    EXPECT_EQ(summarize(report).exit_code, 1);
}

TEST(BenchSummary, ABaselineThatUsedRdmaIsNone) {
    auto report = good_report();
    report.runs[1] = run(RunKind::NoRdma, 15, 8 * test::gib, 0);
    EXPECT_FALSE(summarize(report).lines[0].ratio);
    EXPECT_TRUE(notes_of(report).starts_with("B used RDMA, too: no comparison"));
    EXPECT_EQ(summarize(report).exit_code, 1);
}

TEST(BenchSummary, WhatCannotBeTold) {
    auto report = good_report();
    report.runs[0].verdict = report.runs[2].verdict = std::nullopt;
    EXPECT_EQ(summarize(report).exit_code, 3);
    report.runs[0] = run(RunKind::AsItIs, 15, 1000, 1000);
    report.runs[2] = run(RunKind::AsItIsAgain, 15, 1000, 1000);
    EXPECT_TRUE(notes_of(report).starts_with("A: too few bytes to judge"));
    report.runs[0].verdict->why = {"the GPUs are connected over NVLink: no network was needed"};
    EXPECT_TRUE(notes_of(report).starts_with("A: too few bytes to judge"));
    report.runs[0].verdict->sockets = {test::gib, test::gib, false};
    EXPECT_TRUE(notes_of(report).starts_with("A: the GPUs are connected over NVLink")) << notes_of(report);
    EXPECT_EQ(summarize(report).exit_code, 3);
    EXPECT_FALSE(summarize(report).lines[0].ratio);
}

TEST(BenchSummary, ARatioNeedsProofOfBothSides) {
    auto report = good_report();
    report.runs[2] = run(RunKind::AsItIsAgain, 3.6, 0, 8 * test::gib);
    EXPECT_FALSE(summarize(report).lines[0].ratio) << "A' did not use RDMA";
    EXPECT_NEAR(summarize(report).lines[0].with_rdma->busbw, 122, 0.01) << "A alone";
    report.runs[2].rows.clear();
    EXPECT_TRUE(summarize(report).lines[0].ratio) << "A' has no figure";
    report = good_report();
    report.runs[1].verdict = std::nullopt;
    EXPECT_FALSE(summarize(report).lines[0].ratio);
    EXPECT_TRUE(notes_of(report).starts_with("B: no counters were read: no comparison")) << notes_of(report);
    EXPECT_EQ(summarize(report).exit_code, 3);
    report.runs[1] = run(RunKind::NoRdma, 3, 1000, 1000);
    EXPECT_FALSE(summarize(report).lines[0].ratio);
    EXPECT_TRUE(notes_of(report).starts_with("B: too few bytes")) << notes_of(report);
}

TEST(BenchSummary, SocketsAreABaselineAlsoWhereNvlinkMayConnectTheNodes) {
    const auto report_of = [](const std::function<void(NodeEvidence&)>& change_last) {
        auto report = good_report();
        std::vector nodes = {test::node(0, 8 * test::gib, "n01"), test::node(0, 8 * test::gib, "n02")};
        nodes[0].may_use_nvlink = nodes[1].may_use_nvlink = true;
        change_last(nodes[1]);
        report.runs[1].verdict = judge_step(std::move(nodes), {});
        return report;
    };
    auto report = report_of([](NodeEvidence&) {});
    EXPECT_EQ(report.runs[1].verdict->verdict, Verdict::Unknown);
    EXPECT_TRUE(summarize(report).lines[0].ratio);
    EXPECT_EQ(summarize(report).exit_code, 0) << notes_of(report);
    report = report_of([](NodeEvidence& node) { node.may_use_nvlink = false; });
    EXPECT_TRUE(summarize(report).lines[0].ratio) << "its tasks do without NVLink";
    report = report_of([](NodeEvidence& node) { node.exclusive = false; });
    EXPECT_FALSE(summarize(report).lines[0].ratio) << "another job's bytes";
    EXPECT_EQ(summarize(report).exit_code, 3);
    report.runs[1].verdict = judge_step({}, {"n01", "n02"});
    EXPECT_FALSE(summarize(report).lines[0].ratio) << "no node has reported";
}

TEST(BenchSummary, AReportThatEndedEarlyIsNotGood) {
    auto report = good_report();
    report.ended_early = "interrupted";
    EXPECT_EQ(summarize(report).exit_code, 3);
    auto cut = run(RunKind::AsItIs, 1, 0, 0, 32);
    cut.rows.clear();
    report.runs.push_back(cut);
    EXPECT_EQ(summarize(report).exit_code, 3) << "a run without a result was cut off, and did not fail";
    report.runs.back().problem = "a rank died";
    EXPECT_EQ(summarize(report).exit_code, 2);
}

TEST(BenchSummary, ADriftIsSaid) {
    auto report = good_report();
    report.runs[2] = run(RunKind::AsItIsAgain, 10, 8 * test::gib, 0);
    EXPECT_TRUE(notes_of(report).starts_with("A and A' differ by 42 %")) << notes_of(report);
    EXPECT_EQ(summarize(report).exit_code, 1);
}

TEST(BenchSummary, WrongValuesAreTheWorst) {
    auto report = good_report();
    report.runs[1].rows[0].in_place->wrong = 7;
    EXPECT_TRUE(notes_of(report).starts_with("WRONG VALUES: 7"));
    EXPECT_EQ(summarize(report).exit_code, 2);
}

TEST(BenchSummary, SoftwareRdmaIsNoSpeed) {
    auto report = good_report();
    report.host = report.software = true;
    EXPECT_FALSE(summarize(report).lines[0].ratio);
    EXPECT_NE(notes_of(report).find("a functional test only"), std::string::npos);
    EXPECT_EQ(summarize(report).exit_code, 0);
}

TEST(BenchSummary, RunsWithoutResults) {
    auto report = good_report();
    report.runs[0].rows.clear();
    report.runs[0].problem = "a rank died";
    EXPECT_EQ(summarize(report).exit_code, 2);
    EXPECT_NEAR(summarize(report).lines[0].with_rdma->busbw, 122.6, 0.01) << "A' alone";
    for (auto& each : report.runs) {
        each.rows.clear();
    }
    EXPECT_TRUE(summarize(report).lines.empty());
    EXPECT_EQ(summarize(report).exit_code, 2);
    EXPECT_EQ(summarize({}).exit_code, 3);
}

TEST(BenchSummary, NumbersOfGpusAreKeptApart) {
    auto report = good_report();
    auto inside = run(RunKind::AsItIs, 208, 0, 0, 8);
    inside.nodes = 1;
    report.runs.insert(report.runs.begin(), inside);
    const auto summary = summarize(report);
    ASSERT_EQ(summary.lines.size(), 2U);
    EXPECT_EQ(summary.lines[0].notes.front(), "inside one node: no network");
    EXPECT_EQ(summary.lines[1].ranks, 16U);
    EXPECT_EQ(summary.exit_code, 0);
}

TEST(BenchOutput, TheTable) {
    const auto report = good_report();
    const auto text = write_text(report, summarize(report));
    const auto table = text.substr(text.find("all_reduce, Gb/s"));
    EXPECT_EQ(table, "all_reduce, Gb/s: bus bandwidth, and algorithm's beside it\n"
                     "GPUS  NODES  SIZE     RDMA   ALGBW  NO RDMA  ALGBW  RATIO  VERDICT\n"
                     "16    2      1.07 GB  122.3  65.2   29.1     15.5   4.20   RDMA used: 100.0 %\n");
}

TEST(BenchOutput, TheColumnsOfNcclTests) {
    const auto report = good_report();
    const auto text = write_text(report, summarize(report));
    EXPECT_NE(text.find("# A: 16 GPUs on 2 nodes, as it is, NCCL 2.28.9 (libnccl.so.2)\n# all_reduce\n"),
              std::string::npos);
    EXPECT_NE(
        text.find("\n  1073741824     268435456     float     sum      -1  70409.3    8.13   15.25       0  70409.3"
                  "    8.13   15.25       0   0.00\n"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find("\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 11.4375\n"), std::string::npos)
        << text;
    auto wrong = report;
    wrong.runs[0].rows[1].in_place->wrong = 3;
    wrong.runs[0].rows[1].out_of_place.max_us = wrong.runs[0].rows[1].out_of_place.time_us * 1.5;
    wrong.runs[0].rows[1].out_of_place.min_us = wrong.runs[0].rows[1].out_of_place.time_us * 0.9;
    const auto other = write_text(wrong, summarize(wrong));
    EXPECT_NE(other.find("# Out of bounds values : 3 FAILED\n"), std::string::npos) << other;
    EXPECT_NE(other.find("15.25       3  30.00\n"), std::string::npos) << other;
    EXPECT_NE(text.find("# RDMA USED: 100.0 % of"), std::string::npos);
}

TEST(BenchOutput, Json) {
    const auto report = good_report();
    const auto json = write_json(report, summarize(report));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["runs"][1]["variables"]["NCCL_IB_DISABLE"], "1");
    EXPECT_EQ(json["runs"][0]["verdict"]["verdict"], "USED");
    EXPECT_EQ(json["runs"][0]["results"][1]["size"], std::uint64_t{1} << 30);
    EXPECT_EQ(json["runs"][0]["results"][1]["out_of_place"]["bus_bw"], 15.25);
    EXPECT_EQ(json["summary"][0]["state"], "good");
}

TEST(BenchOutput, CsvHasAsManyFieldsInEachLine) {
    auto report = good_report();
    report.runs[0].rows[0].in_place = std::nullopt;
    const auto text = write_csv(report);
    std::size_t commas = 0;
    std::size_t lines = 0;
    for (const char c : text) {
        commas += c == ',' ? 1 : 0;
        lines += c == '\n' ? 1 : 0;
    }
    EXPECT_EQ(lines, 7U);
    EXPECT_EQ(commas, 22 * lines);
    EXPECT_NE(text.find("in_place_wrong\r\nA,16,2,yes,USED,all_reduce,1048576,262144,float,sum,-1,"), std::string::npos)
        << text;
    EXPECT_TRUE(text.ends_with("\r\n"));
}

} // namespace

} // namespace rdma_nccl::bench
