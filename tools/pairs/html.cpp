// SPDX-License-Identifier: Apache-2.0
// The data for the page of `rdma-nccl pairs`; tools/pairs/page.js draws it.
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/lists.h"
#include "tools/html/page.h"
#include "tools/measure/rails.h"
#include "tools/pairs/judging.h"
#include "tools/pairs/output.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <array>

namespace rdma_nccl::pairs {

namespace {

Json number_or_null(const std::optional<double>& value) {
    return value ? page_number(*value) : Json(nullptr);
}

/// Returns a heading for the table of faults.
std::string heading_of(FaultKind kind) {
    const bool what_is_slow = kind == FaultKind::Node || kind == FaultKind::Rail || kind == FaultKind::Link;
    return format_text("{}{}", what_is_slow ? "slow " : "", name_of(kind));
}

Json page_fault(const Fault& fault) {
    return Json::array({heading_of(fault.kind), fault.text, is_critical(fault.kind)});
}

Json page_node(const measure::Node& node, const NodeScore& score) {
    return {{"name", node.name},
            {"rails", mapped(node.rails, measure::rail_name)},
            {"problem", node.problem},
            {"sends", number_or_null(score.sends_gbps)},
            {"receives", number_or_null(score.receives_gbps)},
            {"latency", number_or_null(score.latency_us)},
            {"pairs", score.pairs},
            {"slow", score.slow},
            {"failed", score.failed},
            {"state", name_of(score.state)}};
}

/// A result whose nodes the report has.
struct Shown {
    const PairingResult& result;
    ResultState state;
};

std::vector<Shown> shown_results(const Report& report, const Verdict& verdict) {
    std::vector<Shown> shown;
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        const auto& [a, b, rail_a, rail_b] = report.results[i].pairing;
        if (a < report.nodes.size() && b < report.nodes.size()) {
            shown.push_back({report.results[i], verdict.results.at(i)});
        }
    }
    return shown;
}

struct Column {
    const char* name;
    Json (*value)(const Shown& shown);
};

constexpr std::array<Column, 15> columns{{
    {"a", [](const Shown& s) { return Json(s.result.pairing.a); }},
    {"b", [](const Shown& s) { return Json(s.result.pairing.b); }},
    {"rail_a", [](const Shown& s) { return Json(s.result.pairing.rail_a); }},
    {"rail_b", [](const Shown& s) { return Json(s.result.pairing.rail_b); }},
    {"forward", [](const Shown& s) { return number_or_null(figure_of(s.result.forward, &Bandwidth::gbps)); }},
    {"backward", [](const Shown& s) { return number_or_null(figure_of(s.result.backward, &Bandwidth::gbps)); }},
    {"both", [](const Shown& s) { return number_or_null(figure_of(s.result.both, &Bandwidth::gbps)); }},
    {"tcp_forward", [](const Shown& s) { return number_or_null(figure_of(s.result.forward, &Bandwidth::tcp_gbps)); }},
    {"tcp_backward", [](const Shown& s) { return number_or_null(figure_of(s.result.backward, &Bandwidth::tcp_gbps)); }},
    {"latency", [](const Shown& s) { return number_or_null(figure_of(s.result.latency, &PairLatency::median_us)); }},
    {"p99", [](const Shown& s) { return number_or_null(figure_of(s.result.latency, &PairLatency::p99_us)); }},
    {"mtu", [](const Shown& s) { return Json(s.result.path_mtu); }},
    {"state", [](const Shown& s) { return Json(static_cast<int>(s.state)); }},
    {"retest", [](const Shown& s) { return Json(s.result.retest ? 1 : 0); }},
    {"wrong", [](const Shown& s) { return Json(s.result.data_correct == false ? 1 : 0); }},
}};

/// Returns the results by column: a cluster has hundreds of thousands of them, each with the same keys. A column
/// without any value is an empty array.
Json results_json(const std::vector<Shown>& results) {
    Json all = Json::object();
    for (const auto& [name, value] : columns) {
        auto column = mapped(results, value);
        const bool empty = std::ranges::all_of(column, &Json::is_null);
        all[name] = empty ? Json::array() : Json::array(std::move(column));
    }
    return all;
}

/// Returns [number of the result, text or texts] for each result that has some.
template<typename T>
Json texts_json(const std::vector<Shown>& results, T PairingResult::*texts) {
    Json all = Json::array();
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (const auto& text = results[i].result.*texts; !text.empty()) {
            all.push_back(Json::array({i, text}));
        }
    }
    return all;
}

/// Returns the floor of the first rail; null if its rate is unknown or it has no floor (software RDMA).
Json floor_json(const Report& report) {
    const double rate = usual_rate(report, 0);
    const bool software =
        std::ranges::any_of(report.nodes, [](auto& node) { return !node.rails.empty() && node.rails[0].software; });
    return rate > 0 && !software ? page_number(JudgeRules{}.floor_share * rate) : Json(nullptr);
}

} // namespace

std::string format_html(const Report& report, const Verdict& verdict) {
    const auto results = shown_results(report, verdict);
    const Json data = {{"schedule", report.schedule},
                       {"started", report.started},
                       {"seconds", page_number(report.seconds)},
                       {"on_gpu", report.on_gpu},
                       {"ended_early", report.ended_early},
                       {"planned", report.planned},
                       {"verdict", verdict_word(verdict)},
                       {"median_gbps", number_or_null(verdict.median_gbps)},
                       {"mad_gbps", number_or_null(verdict.mad_gbps)},
                       {"median_latency_us", number_or_null(verdict.median_latency_us)},
                       {"floor_gbps", floor_json(report)},
                       {"nodes", mapped(report.nodes, verdict.nodes, page_node)},
                       {"faults", mapped(verdict.faults, page_fault)},
                       {"suspects", suspects_hostlist(report, verdict)},
                       {"notes", verdict.notes},
                       {"problems", texts_json(results, &PairingResult::problem)},
                       {"notes_of", texts_json(results, &PairingResult::notes)},
                       {"results", results_json(results)}};
    return page_html(Page::Pairs, "RDMA between pairs of nodes", data);
}

} // namespace rdma_nccl::pairs
