// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "lib/base/format.h"
#include "lib/base/report_fields.h"
#include "tools/bench/output.h"
#include "tools/bench/rank/order.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

namespace {

std::string_view name_of(BenchState state) {
    constexpr std::array<std::string_view, 4> names{"good", "cannot tell", "warning", "critical"};
    return names.at(static_cast<std::size_t>(state));
}

} // namespace

static void fields(auto& f, Row<BenchBandwidth> /*row*/) {
    f("bus_gbps", "bus bandwidth, Gb/s", &BenchBandwidth::busbw);
    f("alg_gbps", "algorithm's bandwidth, Gb/s", &BenchBandwidth::algbw);
}

static void fields(auto& f, Row<BenchLine> /*row*/) {
    f("operation", "all_reduce, all_gather, ...", &BenchLine::operation);
    f("ranks", "GPUs; of --host, nodes times rings", &BenchLine::ranks);
    f("nodes", "that the ranks are on", &BenchLine::nodes);
    f("size", "bytes: the greatest that was measured", &BenchLine::bytes);
    f("rdma", "with RDMA: mean of those of A and A' that used it; null: not measured", &BenchLine::with_rdma);
    f("no_rdma", "without RDMA: B; null: not measured", &BenchLine::without_rdma);
    f("no_gpu_direct", "RDMA without GPUDirect: C; null: not measured", &BenchLine::no_gpu_direct);
    f("ratio", "bus bandwidth with RDMA over without; null: not proven", &BenchLine::ratio);
    f("state", "good, cannot tell, warning or critical", [](const BenchLine& l) { return name_of(l.state); });
    f("notes", "the verdict, in words; the worst first", &BenchLine::notes);
}

static void fields(auto& f, Row<BenchRun> /*row*/) {
    f("name", "A, B, C or A'", &BenchRun::name);
    f("what", "as it is, without RDMA, ...", &BenchRun::what);
    f("rdma_meant", "RDMA is meant to be used", &BenchRun::rdma_meant);
    f("ranks", "GPUs; of --host, nodes times rings", &BenchRun::ranks);
    f("nodes", "that the ranks are on", &BenchRun::nodes);
    f("variables", "names and values, beside those that all runs have", [](const BenchRun& r) {
        auto variables = Json::object();
        for (const auto& [name, value] : r.variables) {
            variables[name] = value;
        }
        return variables;
    });
    f("library", "NCCL 2.28.9 (/usr/lib/...)", &BenchRun::library);
    f("problem", "why it has no results, or not all; empty: it has all", &BenchRun::problem);
    f("verdict", "what the counters say of this very run; null: none were read",
      [](const BenchRun& r) { return r.verdict ? Json::parse(verdict_json(*r.verdict, 0, 0)) : std::nullopt; });
    f("results", "of each size, named as in nccl-tests", [](const BenchRun& r) {
        std::vector<Json> rows;
        rows.reserve(r.rows.size());
        for (const auto& row : r.rows) {
            rows.push_back(row_json(row));
        }
        return rows;
    });
}

namespace {

struct BenchReportRow {
    const BenchReport& report;
    const BenchSummary& summary;
};

void fields(auto& f, Row<BenchReportRow> /*row*/) {
    f("schema", "1", [](const BenchReportRow& /*r*/) { return 1U; });
    f("started", "ISO 8601", [](const BenchReportRow& r) { return r.report.started; });
    f("seconds", "it took", [](const BenchReportRow& r) { return r.report.seconds; });
    f("ended_early", "interrupted, time limit; empty: it was not",
      [](const BenchReportRow& r) { return r.report.ended_early; });
    f("host_memory", "without GPUs", [](const BenchReportRow& r) { return r.report.host; });
    f("software_rdma", "a functional test only", [](const BenchReportRow& r) { return r.report.software; });
    f("nodes", "their names", [](const BenchReportRow& r) { return r.report.nodes; });
    f("gpus", "names of their models, each once", [](const BenchReportRow& r) { return r.report.gpus; });
    f("state", "of the worst line: good, cannot tell, warning or critical",
      [](const BenchReportRow& r) { return name_of(r.summary.state); });
    f("summary", "a line for each operation and number of ranks",
      [](const BenchReportRow& r) -> const std::vector<BenchLine>& { return r.summary.lines; });
    f("runs", "in the order of time",
      [](const BenchReportRow& r) -> const std::vector<BenchRun>& { return r.report.runs; });
}

struct CsvRow {
    const BenchRun& run;
    const BenchRow& row;
};

constexpr int microsecond_digits = 3, bandwidth_digits = 4;

/// Returns a function for a figure of the row's times; `in_place`: absent if it was not measured.
auto figure(bool in_place, double BenchTimes::*which, int digits) {
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
    f("time_us", "median of the repeats, microseconds", figure(false, &BenchTimes::time_us, microsecond_digits));
    f("time_min_us", "", figure(false, &BenchTimes::min_us, microsecond_digits));
    f("time_max_us", "", figure(false, &BenchTimes::max_us, microsecond_digits));
    f("algbw", "1e9 bytes/s, of the median", figure(false, &BenchTimes::algbw, bandwidth_digits));
    f("busbw", "1e9 bytes/s, of the median", figure(false, &BenchTimes::busbw, bandwidth_digits));
    f("wrong", "values; empty: not checked", [](const CsvRow& r) { return r.row.out_of_place.wrong; });
    f("in_place_time_us", "empty: not measured", figure(true, &BenchTimes::time_us, microsecond_digits));
    f("in_place_time_min_us", "", figure(true, &BenchTimes::min_us, microsecond_digits));
    f("in_place_time_max_us", "", figure(true, &BenchTimes::max_us, microsecond_digits));
    f("in_place_algbw", "", figure(true, &BenchTimes::algbw, bandwidth_digits));
    f("in_place_busbw", "", figure(true, &BenchTimes::busbw, bandwidth_digits));
    f("in_place_wrong", "", [](const CsvRow& r) { return r.row.in_place ? r.row.in_place->wrong : std::nullopt; });
}

} // namespace

Json bench_json(const BenchReport& report, const BenchSummary& summary) {
    return report_json(BenchReportRow{report, summary});
}

Json bench_schema() {
    return report_schema<BenchReportRow>();
}

std::string bench_csv(const BenchReport& report) {
    std::string text = report_csv_names<CsvRow>() + "\r\n";
    for (const auto& run : report.runs) {
        for (const auto& row : run.rows) {
            text += report_csv(CsvRow{run, row}) + "\r\n";
        }
    }
    return text;
}

} // namespace rdma_nccl
