// SPDX-License-Identifier: Apache-2.0
// The data of the page of `rdma-nccl bench`; tools/pages/bench.js draws it.
#include "tools/bench_html.h"

#include "lib/format.h"
#include "tools/json.h"
#include "tools/pages.h"
#include "tools/pairs_samples.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

constexpr double bits = 8;

/// One operation with one number of ranks.
using Case = std::pair<std::string, unsigned>;

bool is_main(const BenchRun& run) {
    return run.rdma_meant && run.name.starts_with('A');
}

/// The runs of a case that are to be compared.
std::vector<const BenchRun*> runs_of(const BenchReport& report, const Case& which, bool with_rdma) {
    const bool has_main = std::any_of(report.runs.begin(), report.runs.end(), is_main);
    std::vector<const BenchRun*> runs;
    for (const BenchRun& run : report.runs) {
        const bool chosen = with_rdma ? (has_main ? is_main(run) : run.rdma_meant) : !run.rdma_meant;
        if (chosen && run.ranks == which.second) {
            runs.push_back(&run);
        }
    }
    return runs;
}

const BenchRow* row_of(const BenchRun& run, const std::string& operation, std::uint64_t bytes) {
    const auto found = std::find_if(run.rows.begin(), run.rows.end(), [&](const BenchRow& row) {
        return row.operation == operation && row.bytes == bytes;
    });
    return found == run.rows.end() ? nullptr : &*found;
}

std::optional<double> median_busbw(const std::vector<const BenchRun*>& runs, const std::string& operation,
                                   std::uint64_t bytes) {
    std::vector<double> values;
    for (const BenchRun* run : runs) {
        if (const BenchRow* row = row_of(*run, operation, bytes)) {
            values.push_back(row->out_of_place.busbw);
        }
    }
    const auto low = quantile(values, 0.499999);
    const auto high = quantile(values, 0.5);
    return low && high ? std::optional((*low + *high) / 2) : std::nullopt;
}

std::set<std::uint64_t> sizes_of(const std::vector<const BenchRun*>& runs, const std::string& operation) {
    std::set<std::uint64_t> sizes;
    for (const BenchRun* run : runs) {
        for (const BenchRow& row : run->rows) {
            if (row.operation == operation) {
                sizes.insert(row.bytes);
            }
        }
    }
    return sizes;
}

std::string doubts_of(const std::vector<const BenchRun*>& runs) {
    std::string text;
    for (const BenchRun* run : runs) {
        const BenchDoubt doubt = doubt_of(*run);
        if (!doubt.text.empty()) {
            text += format_text("{}{} {}", text.empty() ? "" : "; ", run->name, doubt.text);
        }
    }
    return text;
}

std::optional<BenchComparison> compare(const BenchReport& report, const Case& which) {
    const auto runs = runs_of(report, which, true);
    const auto without = runs_of(report, which, false);
    const auto& [operation, ranks] = which;
    const auto rdma_sizes = sizes_of(runs, operation);
    const auto other_sizes = sizes_of(without, operation);
    std::vector<std::uint64_t> common;
    std::set_intersection(rdma_sizes.begin(), rdma_sizes.end(), other_sizes.begin(), other_sizes.end(),
                          std::back_inserter(common));
    if (common.empty()) {
        return std::nullopt;
    }
    auto all = runs;
    all.insert(all.end(), without.begin(), without.end());
    return BenchComparison{operation,
                           ranks,
                           common.back(),
                           bits * median_busbw(runs, operation, common.back()).value_or(0),
                           bits * median_busbw(without, operation, common.back()).value_or(0),
                           doubts_of(all)};
}

Json times_json(const BenchTimes& times) {
    return Json::array({page_number(times.time_us), page_number(times.algbw), page_number(times.busbw),
                        times.wrong ? Json(*times.wrong) : Json(nullptr)});
}

/// The spread of the repeats as bandwidths: the longest time has the least.
Json busbw_after(const BenchTimes& times, double us) {
    return us > 0 && times.time_us > 0 ? page_number(times.busbw * times.time_us / us) : Json(nullptr);
}

Json row_json(const BenchRow& row) {
    const BenchTimes& times = row.out_of_place;
    const bool has_spread = times.min_us > 0 && times.max_us > 0;
    return {{"operation", json_ascii(row.operation)},
            {"bytes", row.bytes},
            {"count", row.count},
            {"type", json_ascii(row.type)},
            {"redop", json_ascii(row.redop)},
            {"time", page_number(times.time_us)},
            {"min", page_number(times.min_us)},
            {"max", page_number(times.max_us)},
            {"algbw", page_number(times.algbw)},
            {"busbw", page_number(times.busbw)},
            {"low_busbw", has_spread ? busbw_after(times, times.max_us) : Json(nullptr)},
            {"high_busbw", has_spread ? busbw_after(times, times.min_us) : Json(nullptr)},
            {"wrong", times.wrong ? Json(*times.wrong) : Json(nullptr)},
            {"in_place", row.in_place ? times_json(*row.in_place) : Json(nullptr)}};
}

Json run_json(const BenchRun& run) {
    Json variables = Json::array();
    for (const auto& [name, value] : run.variables) {
        variables.push_back(Json::array({json_ascii(name), json_ascii(value)}));
    }
    Json rows = Json::array();
    for (const BenchRow& row : run.rows) {
        rows.push_back(row_json(row));
    }
    const BenchDoubt doubt = doubt_of(run);
    return {{"name", json_ascii(run.name)},
            {"what", json_ascii(run.what)},
            {"ranks", run.ranks},
            {"rdma_meant", run.rdma_meant},
            {"variables", variables},
            {"library", json_ascii(run.library)},
            {"problem", json_ascii(run.problem)},
            {"verdict", run.verdict ? json_ascii(verdict_line(*run.verdict)) : std::string()},
            {"flag", doubt.text},
            {"flag_is_bad", doubt.bad},
            {"rows", rows}};
}

Json table_json(const BenchReport& report) {
    Json table = Json::array();
    for (const BenchComparison& line : bench_comparisons(report)) {
        table.push_back({{"operation", json_ascii(line.operation)},
                         {"ranks", line.ranks},
                         {"bytes", line.bytes},
                         {"rdma", page_number(line.rdma_gbps)},
                         {"without", page_number(line.without_gbps)},
                         {"doubt", json_ascii(line.doubt)}});
    }
    return table;
}

} // namespace

BenchDoubt doubt_of(const BenchRun& run) {
    if (run.rows.empty()) {
        return {.text = "has no results", .bad = true};
    }
    const Verdict verdict = run.verdict ? run.verdict->verdict : Verdict::Unknown;
    switch (verdict) {
    case Verdict::Used:
        return run.rdma_meant ? BenchDoubt{} : BenchDoubt{.text = "used RDMA all the same", .bad = true};
    case Verdict::Mixed:
        return {.text = run.rdma_meant ? "used RDMA only in part" : "used RDMA in part", .bad = true};
    case Verdict::NotUsed:
        return run.rdma_meant ? BenchDoubt{.text = "did not use RDMA", .bad = true} : BenchDoubt{};
    case Verdict::Idle:
        return {.text = "moved too little between the nodes to tell", .bad = false};
    case Verdict::Unknown:
        break;
    }
    return {.text = run.rdma_meant ? "not proven to have used RDMA" : "not proven to have done without RDMA",
            .bad = false};
}

std::vector<BenchComparison> bench_comparisons(const BenchReport& report) {
    std::vector<std::string> operations;
    std::set<unsigned> ranks;
    for (const BenchRun& run : report.runs) {
        ranks.insert(run.ranks);
        for (const BenchRow& row : run.rows) {
            if (std::find(operations.begin(), operations.end(), row.operation) == operations.end()) {
                operations.push_back(row.operation);
            }
        }
    }
    std::vector<BenchComparison> lines;
    for (const std::string& operation : operations) {
        for (const unsigned count : ranks) {
            if (auto line = compare(report, {operation, count})) {
                lines.push_back(std::move(*line));
            }
        }
    }
    return lines;
}

std::string bench_html(const BenchReport& report) {
    Json runs = Json::array();
    for (const BenchRun& run : report.runs) {
        runs.push_back(run_json(run));
    }
    const Json data = {{"host", report.host},
                       {"software", report.software},
                       {"started", json_ascii(report.started)},
                       {"seconds", page_number(report.seconds)},
                       {"nodes", texts_json(report.nodes)},
                       {"gpus", texts_json(report.gpus)},
                       {"ended_early", json_ascii(report.ended_early)},
                       {"runs", runs},
                       {"table", table_json(report)}};
    return page_html(Page::Bench, "Collectives with RDMA and without", data);
}

} // namespace rdma_nccl
