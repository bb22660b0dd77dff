// SPDX-License-Identifier: Apache-2.0
// The data for the page of `rdma-nccl bench`; tools/bench/page.js draws it.
#include "tools/bench/output.h"

#include "tools/html/page.h"

#include <algorithm>

namespace rdma_nccl::bench {

namespace {

Json page_times(const Times& times) {
    return Json::array({page_number(times.time_us), page_number(times.algbw), page_number(times.busbw),
                        times.wrong ? Json(*times.wrong) : Json(nullptr)});
}

/// Converts a time of the repeats to a bandwidth, to show the spread: the longest time gives the lowest bandwidth.
Json busbw_after(const Times& times, double us) {
    return us > 0 && times.time_us > 0 ? page_number(times.busbw * times.time_us / us) : Json(nullptr);
}

Json page_row(const ResultRow& row) {
    const Times& times = row.out_of_place;
    const bool has_spread = times.min_us > 0 && times.max_us > 0;
    return {{"operation", row.operation},
            {"bytes", row.bytes},
            {"count", row.count},
            {"type", row.type},
            {"redop", row.redop},
            {"time", page_number(times.time_us)},
            {"min", page_number(times.min_us)},
            {"max", page_number(times.max_us)},
            {"algbw", page_number(times.algbw)},
            {"busbw", page_number(times.busbw)},
            {"low_busbw", has_spread ? busbw_after(times, times.max_us) : Json(nullptr)},
            {"high_busbw", has_spread ? busbw_after(times, times.min_us) : Json(nullptr)},
            {"wrong", times.wrong ? Json(*times.wrong) : Json(nullptr)},
            {"in_place", row.in_place ? page_times(*row.in_place) : Json(nullptr)}};
}

/// Returns whether the run needed no network: it is inside one node, and has no counterpart without RDMA.
bool is_inside_node(const Report& report, const Run& run) {
    return !report.host && run.nodes == 1 &&
           std::none_of(report.runs.begin(), report.runs.end(),
                        [&](const auto& other) { return other.ranks == run.ranks && !other.rdma_meant; });
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

Json page_run(const Report& report, const Run& run) {
    Json variables = Json::array();
    for (const auto& [name, value] : run.variables) {
        variables.push_back(Json::array({name, value}));
    }
    Json rows = Json::array();
    std::uint64_t wrong = 0;
    for (const ResultRow& row : run.rows) {
        rows.push_back(page_row(row));
        wrong += row.wrong();
    }
    const Doubt doubt = doubt_in_report(report, run);
    return {{"name", run.name},
            {"what", run.what},
            {"ranks", run.ranks},
            {"rdma_meant", run.rdma_meant},
            {"variables", variables},
            {"library", run.library},
            {"problem", run.problem},
            {"verdict", run.verdict ? verdict_line(*run.verdict) : std::string()},
            {"flag", doubt.text},
            {"flag_is_bad", doubt.bad},
            {"words", text_without_doubt(report, run)},
            {"wrong", wrong},
            {"rows", rows}};
}

Json busbw_json(const std::optional<Bandwidth>& bandwidth) {
    return bandwidth ? page_number(bandwidth->busbw) : Json(nullptr);
}

std::string_view grade_of(State state) {
    return state == State::Good ? "good" : state == State::Critical ? "bad" : "warn";
}

/// The same figures and verdicts as on the terminal.
Json table_json(const Summary& summary) {
    Json table = Json::array();
    for (const SummaryLine& line : summary.lines) {
        table.push_back({{"operation", line.operation},
                         {"ranks", line.ranks},
                         {"nodes", line.nodes},
                         {"bytes", line.bytes},
                         {"rdma", busbw_json(line.with_rdma)},
                         {"without", busbw_json(line.without_rdma)},
                         {"no_gpu_direct", busbw_json(line.no_gpu_direct)},
                         {"ratio", line.ratio ? page_number(*line.ratio) : Json(nullptr)},
                         {"grade", grade_of(line.state)},
                         {"verdict", line.verdict()}});
    }
    return table;
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
    Json runs = Json::array();
    for (const Run& run : report.runs) {
        runs.push_back(page_run(report, run));
    }
    const Json data = {{"host", report.host},
                       {"software", report.software},
                       {"started", report.started},
                       {"seconds", page_number(report.seconds)},
                       {"nodes", report.nodes},
                       {"gpus", report.gpus},
                       {"ended_early", report.ended_early},
                       {"runs", runs},
                       {"table", table_json(summarize(report))}};
    return page_html(Page::Bench, "Collectives with RDMA and without", data);
}

} // namespace rdma_nccl::bench
