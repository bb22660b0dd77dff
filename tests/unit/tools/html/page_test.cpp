// SPDX-License-Identifier: Apache-2.0
// The data of the pages; how they look is tests/html's.
#include "lib/base/json.h"
#include "tests/unit/pairs_cluster.h"
#include "tools/bench/output.h"
#include "tools/html/page.h"
#include "tools/pairs/output.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace rdma_nccl::test {
namespace {

constexpr std::string_view data_begin = R"(id="data">)";

std::string_view raw_data(std::string_view html) {
    const auto begin = html.find(data_begin) + data_begin.size();
    return html.substr(begin, html.find("</script>", begin) - begin);
}
Json data_of(const std::string& html) {
    return *Json::parse(raw_data(html));
}

TEST(Pages, ATextStaysAText) {
    const std::string text = "</script><script>alert(1)</script><!-- ]]> '\" & @title@ @data@ \xff\x01";
    const std::string html = page_html(Page::Pairs, "a <title> & \"more\"", {{"name", text}});
    EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
    EXPECT_EQ(raw_data(html).find('<'), std::string::npos);
    EXPECT_NE(html.find("<title>a &lt;title&gt; &amp; &quot;more&quot;</title>"), std::string::npos);
    const std::string same = data_of(html)["name"].text();
    EXPECT_EQ(same.substr(0, same.size() - 4), text.substr(0, text.size() - 2)) << "but for what is no UTF-8";
}

TEST(Pages, NothingComesFromElsewhere) {
    for (const Page page : {Page::Pairs, Page::Bench}) {
        const std::string html = page_html(page, "title", Json::object());
        for (const char* what : {"https:", "//cdn", "@import", "url(", " src="}) {
            EXPECT_EQ(html.find(what), std::string::npos) << what;
        }
        EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
        for (const char* name : {"@title@", "@style@", "@data@", "@script@"}) {
            EXPECT_EQ(html.find(name), std::string::npos) << name;
        }
    }
}

TEST(Pages, NumbersAreShort) {
    EXPECT_EQ(page_number(388.123456).dump(), "388.12");
    EXPECT_EQ(page_number(0.000123456789).dump(), "0.00012346");
    EXPECT_EQ(page_number(123456789).dump(), "123460000.0");
    EXPECT_EQ(page_number(-1.5).dump(), "-1.5");
    EXPECT_EQ(page_number(0).dump(), "0");
    EXPECT_TRUE(page_number(std::nan("")).is_null());
    EXPECT_TRUE(page_number(std::numeric_limits<double>::infinity()).is_null());
    EXPECT_GT(page_number(std::numeric_limits<double>::max()).get<double>(), 1e308);
    EXPECT_NO_THROW(page_number(std::numeric_limits<double>::denorm_min()));
}

TEST(PairsHtml, HasAllThatWasMeasured) {
    auto report = measured_cluster(3, 2, [](unsigned from, auto...) { return 380.0 + from; });
    report.results[1].problem = "retry exceeded";
    report.results[2].notes = {"ECN marks"};
    report.results[2].forward->tcp_gbps = 37.5;
    report.results.push_back(failed_result({.a = 0, .b = 9}, "")); // no such node
    const auto verdict = pairs::judge(report, {});
    const Json data = data_of(pairs::format_html(report, verdict));
    const Json& results = data["results"];
    ASSERT_EQ(results["a"].size(), 6U);
    for (const auto& [name, column] : results.members()) {
        EXPECT_TRUE(column.size() == 6 || (column.empty() && (name == "both" || name == "tcp_backward"))) << name;
    }
    EXPECT_EQ(results["forward"][0], 381) << "of " << results["a"][0];
    EXPECT_EQ(results["tcp_forward"][2], 37.5);
    EXPECT_TRUE(results["tcp_forward"][0].is_null());
    EXPECT_EQ(results["state"][1], static_cast<int>(pairs::ResultState::Failed));
    EXPECT_EQ(data["problems"], *Json::parse(R"([[1, "retry exceeded"]])"));
    EXPECT_EQ(data["notes_of"], *Json::parse(R"([[2, ["ECN marks"]]])"));
    EXPECT_EQ(data["nodes"][2]["rails"], *Json::parse(R"(["mlx5_0:1", "mlx5_1:1"])"));
    EXPECT_EQ(data["floor_gbps"], 360);
    EXPECT_EQ(data["verdict"], "failed");
    EXPECT_EQ(data["faults"][0][2], true);
}

TEST(PairsHtml, OfNothing) {
    const Json data = data_of(pairs::format_html({}, {}));
    EXPECT_EQ(data["results"]["a"], Json::array());
    EXPECT_TRUE(data["floor_gbps"].is_null());
    EXPECT_EQ(data["suspects"], "");
}

bench::Run run_of(const char* name, bool rdma, double busbw, std::optional<Verdict> verdict,
                  std::uint64_t most = 2048) {
    bench::Run run;
    run.name = name;
    run.rdma_meant = rdma;
    run.ranks = 2;
    for (std::uint64_t size = 1024; size <= most; size *= 2) {
        bench::ResultRow row;
        row.operation = "all_reduce";
        row.bytes = size;
        row.out_of_place = {.time_us = 10, .min_us = 8, .max_us = 20, .algbw = busbw, .busbw = busbw, .wrong = {}};
        run.rows.push_back(row);
    }
    if (verdict) {
        run.verdict.emplace().verdict = *verdict;
    }
    return run;
}

TEST(BenchHtml, TheTableIsTheTerminals) {
    bench::Report report;
    report.runs = {run_of("A", true, 40, Verdict::Used), run_of("B", false, 5, Verdict::NotUsed),
                   run_of("C", true, 20, Verdict::Used), run_of("A'", true, 38, Verdict::Used)};
    auto table = data_of(bench::write_html(report))["summary"];
    ASSERT_EQ(table.size(), 1U);
    EXPECT_EQ(table[0]["rdma"]["bus_gbps"], 8 * 39) << "the mean of A and A', without C";
    EXPECT_EQ(table[0]["no_rdma"]["bus_gbps"], 40);
    EXPECT_EQ(table[0]["no_gpu_direct"]["bus_gbps"], 160);
    EXPECT_EQ(table[0]["ratio"], 7.8);
    EXPECT_EQ(table[0]["state"], "good");
    report.runs[1].verdict->verdict = Verdict::Used;
    table = data_of(bench::write_html(report))["summary"];
    EXPECT_TRUE(table[0]["ratio"].is_null());
    EXPECT_EQ(table[0]["state"], "warning");
    EXPECT_EQ(table[0]["notes"][0].get<std::string>().find("B used RDMA, too"), 0U) << table;
}

TEST(BenchHtml, InsideOneNodeNothingIsDoubted) {
    bench::Report report;
    report.runs = {run_of("A", true, 40, Verdict::Idle)};
    report.runs[0].nodes = 1;
    auto data = data_of(bench::write_html(report));
    EXPECT_EQ(data["runs"][0]["flag"], "");
    EXPECT_EQ(data["runs"][0]["words"], "inside one node: no network");
    EXPECT_EQ(data["summary"][0]["state"], "good");
    report.runs[0].nodes = 2;
    EXPECT_NE(data_of(bench::write_html(report))["runs"][0]["flag"], "");
}

TEST(BenchHtml, WrongValuesAndWhatWasCutOffAreSaid) {
    bench::Report report;
    report.runs = {run_of("A", true, 40, Verdict::Used), run_of("B", false, 5, Verdict::NotUsed)};
    report.runs[0].rows[0].out_of_place.wrong = 3;
    report.runs[0].rows[1].in_place.emplace().wrong = 4;
    report.runs[1].rows.clear();
    report.ended_early = "interrupted";
    const auto data = data_of(bench::write_html(report));
    EXPECT_EQ(data["runs"][0]["wrong"], 7);
    EXPECT_EQ(data["summary"][0]["state"], "critical");
    EXPECT_EQ(data["runs"][1]["flag_is_bad"], false);
    EXPECT_NE(page_html(Page::Bench, "title", Json::object()).find("WRONG VALUES"), std::string::npos);
}

TEST(BenchHtml, ARunThatIsNotWhatItClaims) {
    const auto doubt = [](bool meant, Verdict verdict) { return bench::run_doubt(run_of("A", meant, 1, verdict)); };
    EXPECT_EQ(doubt(true, Verdict::Used).text, "");
    EXPECT_EQ(doubt(false, Verdict::NotUsed).text, "");
    EXPECT_TRUE(doubt(true, Verdict::NotUsed).bad);
    EXPECT_TRUE(doubt(true, Verdict::Mixed).bad);
    EXPECT_TRUE(doubt(false, Verdict::Used).bad);
    EXPECT_TRUE(doubt(false, Verdict::Mixed).bad);
    EXPECT_FALSE(doubt(true, Verdict::Idle).bad);
    EXPECT_NE(doubt(true, Verdict::Unknown).text, "");
    EXPECT_EQ(bench::run_doubt({}).text, "has no results");
}

TEST(BenchHtml, HasAllRuns) {
    bench::Report report;
    report.nodes = {"n1"};
    report.runs = {run_of("A", true, 40, Verdict::Used), run_of("B", false, 5, Verdict::Used)};
    report.runs[1].variables = {{"NCCL_IB_DISABLE", "1"}};
    const Json data = data_of(bench::write_html(report));
    ASSERT_EQ(data["runs"].size(), 2U);
    EXPECT_EQ(data["runs"][1]["flag"], "used RDMA all the same");
    EXPECT_EQ(data["runs"][1]["flag_is_bad"], true);
    EXPECT_EQ(data["runs"][1]["variables"], *Json::parse(R"({"NCCL_IB_DISABLE": "1"})"));
    const auto& row = data["runs"][0]["results"][1];
    EXPECT_EQ(row["size"], 2048);
    EXPECT_EQ(row["out_of_place"]["bus_bw"], 40);
    EXPECT_EQ(row["out_of_place"]["time_min"], 8);
    EXPECT_EQ(row["out_of_place"]["time_max"], 20);
    EXPECT_TRUE(row["out_of_place"]["nwrong"].is_null());
    EXPECT_EQ(data["summary"].size(), 1U);
}

} // namespace
} // namespace rdma_nccl::test
