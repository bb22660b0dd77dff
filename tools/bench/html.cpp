// SPDX-License-Identifier: Apache-2.0
// The data for the page of `rdma-nccl bench`: its JSON, with what to say of each run. tools/bench/page.js draws it.
#include "tools/bench/output.h"

#include "tools/html/page.h"

#include <algorithm>

namespace rdma_nccl::bench {

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
