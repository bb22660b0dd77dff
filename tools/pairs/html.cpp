// SPDX-License-Identifier: Apache-2.0
// The data for the page of `rdma-nccl pairs`; tools/pairs/page.js draws it.
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "tools/html/page.h"
#include "tools/measure/rails.h"
#include "tools/pairs/output.h"
#include "tools/pairs/samples.h"

#include "tools/pairs/fault_messages.h"
#include "tools/verbs/rail.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

Json number_or_null(const std::optional<double>& value) {
    return value ? page_number(*value) : Json(nullptr);
}

/// Returns a heading for the table of faults.
std::string heading_of(PairsFaultKind kind) {
    const bool what_is_slow =
        kind == PairsFaultKind::Node || kind == PairsFaultKind::Rail || kind == PairsFaultKind::Link;
    return format_text("{}{}", what_is_slow ? "slow " : "", name_of(kind));
}

Json node_json(const PairNode& node, const NodeScore& score) {
    Json rails = Json::array();
    for (const PairRail& rail : node.rails) {
        rails.push_back(rail_name(rail));
    }
    return {{"name", node.name},
            {"rails", rails},
            {"problem", node.problem},
            {"sends", number_or_null(score.sends_gbps)},
            {"receives", number_or_null(score.receives_gbps)},
            {"latency", number_or_null(score.latency_us)},
            {"pairs", score.pairs},
            {"slow", score.slow},
            {"failed", score.failed},
            {"state", name_of(score.state)}};
}

Json nodes_json(const PairsReport& report, const PairsVerdict& verdict) {
    Json nodes = Json::array();
    for (std::size_t i = 0; i < report.nodes.size(); ++i) {
        nodes.push_back(node_json(report.nodes[i], i < verdict.nodes.size() ? verdict.nodes[i] : NodeScore{}));
    }
    return nodes;
}

bool has_nodes(const PairsReport& report, const PairResult& result) {
    return result.pairing.a < report.nodes.size() && result.pairing.b < report.nodes.size();
}

/// Stores results by column: a cluster has hundreds of thousands of them, each with the same keys.
class Columns {
public:
    void add(const PairResult& result, PairState state) {
        const auto gbps = [](const std::optional<PairBandwidth>& way) {
            return way ? page_number(way->gbps) : Json(nullptr);
        };
        const auto tcp = [](const std::optional<PairBandwidth>& way) {
            return way ? number_or_null(way->tcp_gbps) : Json(nullptr);
        };
        put("a", result.pairing.a);
        put("b", result.pairing.b);
        put("rail_a", result.pairing.rail_a);
        put("rail_b", result.pairing.rail_b);
        put("forward", gbps(result.forward));
        put("backward", gbps(result.backward));
        put("both", gbps(result.both));
        put("tcp_forward", tcp(result.forward));
        put("tcp_backward", tcp(result.backward));
        put("latency", result.latency ? page_number(result.latency->median_us) : Json(nullptr));
        put("p99", result.latency ? page_number(result.latency->p99_us) : Json(nullptr));
        put("mtu", result.path_mtu);
        put("state", static_cast<int>(state));
        put("retest", result.retest ? 1 : 0);
        put("wrong", result.data_correct == false ? 1 : 0);
        if (!result.problem.empty()) {
            problems.push_back(Json::array({count, result.problem}));
        }
        if (!result.notes.empty()) {
            notes.push_back(Json::array({count, result.notes}));
        }
        ++count;
    }

    /// Returns all columns. A column without any value is an empty array.
    Json json() && {
        Json all = Json::object();
        for (std::size_t i = 0; i < names.size(); ++i) {
            const bool empty = std::all_of(columns.at(i).begin(), columns.at(i).end(),
                                           [](const Json& value) { return value.is_null(); });
            all[names.at(i)] = empty ? Json::array() : std::move(columns.at(i));
        }
        return all;
    }

    Json problems = Json::array(), notes = Json::array(); ///< [number of the result, text or texts]

private:
    void put(std::string_view name, Json value) {
        const auto at = std::find(names.begin(), names.end(), name) - names.begin();
        columns.at(static_cast<std::size_t>(at)).push_back(std::move(value));
    }

    static constexpr std::array<const char*, 15> names = {"a",        "b",    "rail_a",      "rail_b",       "forward",
                                                          "backward", "both", "tcp_forward", "tcp_backward", "latency",
                                                          "p99",      "mtu",  "state",       "retest",       "wrong"};
    std::array<Json, names.size()> columns = [] {
        std::array<Json, names.size()> empty;
        empty.fill(Json::array());
        return empty;
    }();
    std::size_t count = 0;
};

Json faults_json(const PairsVerdict& verdict) {
    Json faults = Json::array();
    for (const PairsFault& fault : verdict.faults) {
        faults.push_back(Json::array({heading_of(fault.kind), fault.text, is_critical(fault.kind)}));
    }
    return faults;
}

/// Returns the floor of the first rail; null if its rate is unknown or it has no floor (software RDMA).
Json floor_json(const PairsReport& report) {
    const double rate = usual_rate(report, 0);
    const bool software =
        !report.nodes.empty() && std::any_of(report.nodes.begin(), report.nodes.end(),
                                             [](auto& node) { return !node.rails.empty() && node.rails[0].software; });
    return rate > 0 && !software ? page_number(JudgeRules{}.floor_share * rate) : Json(nullptr);
}

} // namespace

std::string pairs_html(const PairsReport& report, const PairsVerdict& verdict) {
    Columns columns;
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        if (has_nodes(report, report.results[i])) {
            columns.add(report.results[i], i < verdict.results.size() ? verdict.results[i] : PairState::Unknown);
        }
    }
    Json data = {{"schedule", report.schedule},
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
                 {"nodes", nodes_json(report, verdict)},
                 {"faults", faults_json(verdict)},
                 {"suspects", suspects_hostlist(report, verdict)},
                 {"notes", verdict.notes}};
    data["problems"] = std::move(columns.problems);
    data["notes_of"] = std::move(columns.notes);
    data["results"] = std::move(columns).json();
    return page_html(Page::Pairs, "RDMA between pairs of nodes", data);
}

} // namespace rdma_nccl
