// SPDX-License-Identifier: Apache-2.0
// The report as JSON, which is also the data of its page, with what to say of each run (tools/bench/page.js draws it).
#include "tools/bench/output.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "tools/html/page.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace rdma_nccl::bench {

namespace {

std::string_view name_of(State state) {
    constexpr std::array<std::string_view, 4> names{"good", "cannot tell", "warning", "critical"};
    return names.at(static_cast<std::size_t>(state));
}

} // namespace

static void fields(auto& f, Row<Bandwidth> /*row*/) {
    f("bus_gbps", "bus bandwidth, Gb/s", &Bandwidth::busbw);
    f("alg_gbps", "algorithm's bandwidth, Gb/s", &Bandwidth::algbw);
}

static void fields(auto& f, Row<SummaryLine> /*row*/) {
    f("operation", "all_reduce, all_gather, ...", &SummaryLine::operation);
    f("ranks", "GPUs; of --host, nodes times rings", &SummaryLine::ranks);
    f("nodes", "that the ranks are on", &SummaryLine::nodes);
    f("size", "bytes: the greatest that was measured", &SummaryLine::bytes);
    f("rdma", "with RDMA: mean of those of A and A' that used it; null: not measured", &SummaryLine::with_rdma);
    f("no_rdma", "without RDMA: B; null: not measured", &SummaryLine::without_rdma);
    f("no_gpu_direct", "RDMA without GPUDirect: C; null: not measured", &SummaryLine::no_gpu_direct);
    f("ratio", "bus bandwidth with RDMA over without; null: not proven", &SummaryLine::ratio);
    f("state", "good, cannot tell, warning or critical", [](const SummaryLine& l) { return name_of(l.state); });
    f("notes", "the verdict, in words; the worst first", &SummaryLine::notes);
}

static void fields(auto& f, Row<Run> /*row*/) {
    f("name", "A, B, C or A'", &Run::name);
    f("what", "as it is, without RDMA, ...", &Run::what);
    f("rdma_meant", "RDMA is meant to be used", &Run::rdma_meant);
    f("ranks", "GPUs; of --host, nodes times rings", &Run::ranks);
    f("nodes", "that the ranks are on", &Run::nodes);
    f("variables", "names and values, beside those that all runs have", [](const Run& r) {
        return Json::object(mapped(r.variables, [](const auto& v) { return JsonMember{v.first, v.second}; }));
    });
    f("library", "NCCL 2.28.9 (/usr/lib/...)", &Run::library);
    f("problem", "why it has no results, or not all; empty: it has all", &Run::problem);
    f("verdict", "what the counters say of this very run; null: none were read",
      [](const Run& r) { return r.verdict ? Json::parse(verdict_json(*r.verdict, 0, 0)) : std::nullopt; });
    f("results", "of each size, named as in nccl-tests", [](const Run& r) { return mapped(r.rows, row_json); });
}

namespace {

struct ReportRow {
    const Report& report;
    const Summary& summary;
};

void fields(auto& f, Row<ReportRow> /*row*/) {
    f("schema", "1", [](const ReportRow& /*r*/) { return 1U; });
    f("started", "ISO 8601", [](const ReportRow& r) { return r.report.started; });
    f("seconds", "it took", [](const ReportRow& r) { return r.report.seconds; });
    f("ended_early", "interrupted, time limit; empty: it was not",
      [](const ReportRow& r) { return r.report.ended_early; });
    f("host_memory", "without GPUs", [](const ReportRow& r) { return r.report.host; });
    f("software_rdma", "a functional test only", [](const ReportRow& r) { return r.report.software; });
    f("nodes", "their names", [](const ReportRow& r) { return r.report.nodes; });
    f("gpus", "names of their models, each once", [](const ReportRow& r) { return r.report.gpus; });
    f("state", "of the worst line: good, cannot tell, warning or critical",
      [](const ReportRow& r) { return name_of(r.summary.state); });
    f("summary", "a line for each operation and number of ranks",
      [](const ReportRow& r) -> const std::vector<SummaryLine>& { return r.summary.lines; });
    f("runs", "in the order of time", [](const ReportRow& r) -> const std::vector<Run>& { return r.report.runs; });
}

struct CsvRow {
    const Run& run;
    const ResultRow& row;
};

constexpr int microsecond_digits = 3, bandwidth_digits = 4;

/// Returns a function for a figure of the row's times; `in_place`: absent if it was not measured.
auto figure(bool in_place, double Times::*which, int digits) {
    return [=](const CsvRow& r) {
        const auto times = in_place ? r.row.in_place : std::optional(r.row.out_of_place);
        return times ? std::optional(format_text("{:.{}f}", (*times).*which, digits)) : std::nullopt;
    };
}

void fields(auto& f, Row<CsvRow> /*row*/) {
    f("run", "A, B, C or A'", [](const CsvRow& r) { return r.run.name; });
    f("ranks", "", [](const CsvRow& r) { return r.run.ranks; });
    f("nodes", "that the ranks are on", [](const CsvRow& r) { return r.run.nodes; });
    f("rdma_meant", "RDMA is meant to be used", [](const CsvRow& r) { return r.run.rdma_meant; });
    f("rdma_used", "USED, MIXED, NOT USED, IDLE or UNKNOWN; empty: no counters were read",
      [](const CsvRow& r) { return r.run.verdict ? std::optional(name_of(r.run.verdict->verdict)) : std::nullopt; });
    f("operation", "all_reduce, all_gather, ...", [](const CsvRow& r) { return r.row.operation; });
    f("size", "bytes", [](const CsvRow& r) { return r.row.bytes; });
    f("count", "elements", [](const CsvRow& r) { return r.row.count; });
    f("type", "float, half, ...", [](const CsvRow& r) { return r.row.type; });
    f("redop", "sum, none, ...", [](const CsvRow& r) { return r.row.redop; });
    f("root", "of broadcast; -1: none", [](const CsvRow& r) { return r.row.root; });
    f("time_us", "median of the repeats, microseconds", figure(false, &Times::time_us, microsecond_digits));
    f("time_min_us", "", figure(false, &Times::min_us, microsecond_digits));
    f("time_max_us", "", figure(false, &Times::max_us, microsecond_digits));
    f("algbw", "1e9 bytes/s, of the median", figure(false, &Times::algbw, bandwidth_digits));
    f("busbw", "1e9 bytes/s, of the median", figure(false, &Times::busbw, bandwidth_digits));
    f("wrong", "values; empty: not checked", [](const CsvRow& r) { return r.row.out_of_place.wrong; });
    f("in_place_time_us", "empty: not measured", figure(true, &Times::time_us, microsecond_digits));
    f("in_place_time_min_us", "", figure(true, &Times::min_us, microsecond_digits));
    f("in_place_time_max_us", "", figure(true, &Times::max_us, microsecond_digits));
    f("in_place_algbw", "", figure(true, &Times::algbw, bandwidth_digits));
    f("in_place_busbw", "", figure(true, &Times::busbw, bandwidth_digits));
    f("in_place_wrong", "", [](const CsvRow& r) { return r.row.in_place ? r.row.in_place->wrong : std::nullopt; });
}

} // namespace

Json write_json(const Report& report, const Summary& summary) {
    return report_json(ReportRow{report, summary});
}

Json json_schema() {
    return report_schema<ReportRow>();
}

std::string write_csv(const Report& report) {
    std::string text = report_csv_names<CsvRow>() + "\r\n";
    for (const auto& run : report.runs) {
        for (const auto& row : run.rows) {
            text += report_csv(CsvRow{run, row}) + "\r\n";
        }
    }
    return text;
}

namespace {

/// Returns whether the run needed no network: it is inside one node, and has no counterpart without RDMA.
bool is_inside_node(const Report& report, const Run& run) {
    return !report.host && run.nodes == 1 && std::ranges::none_of(report.runs, [&](const auto& other) {
        return other.ranks == run.ranks && !other.rdma_meant;
    });
}

Doubt doubt_in_report(const Report& report, const Run& run) {
    if (run.rows.empty() && run.problem.empty() && !report.ended_early.empty()) {
        return {"was ended before it had results", false};
    }
    return !run.rows.empty() && is_inside_node(report, run) ? Doubt{} : run_doubt(run);
}

std::string_view text_without_doubt(const Report& report, const Run& run) {
    return is_inside_node(report, run) ? "inside one node: no network"
           : run.rdma_meant            ? "used RDMA"
                                       : "without RDMA, as meant";
}

/// Adds what the page says of the run to the run's JSON.
void add_words(Json& json, const Report& report, const Run& run) {
    std::uint64_t wrong = 0;
    for (const ResultRow& row : run.rows) {
        wrong += row.wrong();
    }
    const Doubt doubt = doubt_in_report(report, run);
    json["verdict"] = run.verdict ? verdict_line(*run.verdict) : std::string();
    json["flag"] = doubt.text;
    json["flag_is_bad"] = doubt.bad;
    json["words"] = text_without_doubt(report, run);
    json["wrong"] = wrong;
}

} // namespace

Doubt run_doubt(const Run& run) {
    if (run.rows.empty()) {
        return {"has no results", true};
    }
    const bool meant = run.rdma_meant;
    switch (run.verdict ? run.verdict->verdict : Verdict::Unknown) {
    case Verdict::Used:
        return meant ? Doubt{} : Doubt{"used RDMA all the same", true};
    case Verdict::Mixed:
        return {meant ? "used RDMA only in part" : "used RDMA in part", true};
    case Verdict::NotUsed:
        return meant ? Doubt{"did not use RDMA", true} : Doubt{};
    case Verdict::Idle:
        return {"moved too little between the nodes to tell", false};
    case Verdict::Unknown:
        break;
    }
    return {meant ? "not proven to have used RDMA" : "not proven to have done without RDMA", false};
}

std::string write_html(const Report& report) {
    auto data = write_json(report, summarize(report));
    for (std::size_t i = 0; i < report.runs.size(); ++i) {
        add_words(data["runs"][i], report, report.runs[i]);
    }
    return page_html(Page::Bench, "Collectives with RDMA and without", data);
}

} // namespace rdma_nccl::bench
