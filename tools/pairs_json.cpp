// SPDX-License-Identifier: Apache-2.0
#include "tools/json.h"
#include "tools/pairs_node.h"
#include "tools/pairs_output.h"
#include "tools/pairs_words.h"

#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

Json rail_report(const PairRail& rail) {
    return {{"port", json_text(rail_name(rail))},
            {"link_layer", rail.ethernet ? "Ethernet" : "InfiniBand"},
            {"gid_index", rail.gid_index},
            {"gid", json_text(rail.gid)},
            {"rate_gbps", rail.rate_gbps > 0 ? Json(rail.rate_gbps) : Json()},
            {"netdev", json_text(rail.netdev)},
            {"netdev_mtu", rail.netdev_mtu},
            {"address", json_text(rail.address)},
            {"numa_node", or_null(rail.numa_node)},
            {"software", rail.software}};
}

Json node_report(const PairNode& node, const NodeScore& score) {
    auto rails = Json::array();
    for (const auto& rail : node.rails) {
        rails.push_back(rail_report(rail));
    }
    return {{"name", json_text(node.name)},
            {"problem", json_text(node.problem)},
            {"state", name_of(score.state)},
            {"sends_gbps", or_null(score.sends_gbps)},
            {"receives_gbps", or_null(score.receives_gbps)},
            {"latency_us", or_null(score.latency_us)},
            {"pairs", score.pairs},
            {"slow", score.slow},
            {"failed", score.failed},
            {"rails", std::move(rails)}};
}

Json bandwidth_json(const std::optional<PairBandwidth>& bandwidth) {
    if (!bandwidth) {
        return {};
    }
    return {{"gbps", bandwidth->gbps},
            {"bytes", bandwidth->bytes},
            {"counted_share", or_null(bandwidth->counted_share)},
            {"tcp_gbps", or_null(bandwidth->tcp_gbps)}};
}

Json latency_json(const std::optional<PairLatency>& latency) {
    if (!latency) {
        return {};
    }
    return {{"min_us", latency->min_us},   {"median_us", latency->median_us}, {"p99_us", latency->p99_us},
            {"p999_us", latency->p999_us}, {"max_us", latency->max_us},       {"round_trips", latency->round_trips}};
}

Json result_json(const PairsReport& report, const PairResult& result, PairState state) {
    const auto end = [&](unsigned node, unsigned rail) {
        return Json{{"node", json_text(report.nodes.at(node).name)},
                    {"port", json_text(rail_name(report.nodes.at(node).rails.at(rail)))},
                    {"rail", rail}};
    };
    const auto& pairing = result.pairing;
    return {{"a", end(pairing.a, pairing.rail_a)},
            {"b", end(pairing.b, pairing.rail_b)},
            {"round", result.round},
            {"retest", result.retest},
            {"state", name_of(state)},
            {"problem", json_text(result.problem)},
            {"fault_of", result.fault_of ? json_text(report.nodes.at(*result.fault_of).name) : nlohmann::json()},
            {"data_correct", or_null(result.data_correct)},
            {"path_mtu", result.path_mtu > 0 ? Json(result.path_mtu) : Json()},
            {"latency", latency_json(result.latency)},
            {"forward", bandwidth_json(result.forward)},
            {"backward", bandwidth_json(result.backward)},
            {"both", bandwidth_json(result.both)},
            {"notes", texts_json(result.notes)}};
}

Json names_json(const PairsReport& report, const std::vector<unsigned>& nodes) {
    std::vector<std::string> names;
    names.reserve(nodes.size());
    for (const unsigned node : nodes) {
        names.push_back(report.nodes.at(node).name);
    }
    return texts_json(names);
}

Json fault_json(const PairsReport& report, const PairsFault& fault) {
    return {{"kind", name_of(fault.kind)},
            {"nodes", names_json(report, fault.nodes)},
            {"rail", or_null(fault.rail)},
            {"text", json_text(fault.text)}};
}

Json verdict_json(const PairsReport& report, const PairsVerdict& verdict) {
    auto faults = Json::array();
    for (const auto& fault : verdict.faults) {
        faults.push_back(fault_json(report, fault));
    }
    return {{"verdict", verdict_word(verdict)},
            {"median_gbps", or_null(verdict.median_gbps)},
            {"mad_gbps", or_null(verdict.mad_gbps)},
            {"median_latency_us", or_null(verdict.median_latency_us)},
            {"faults", std::move(faults)},
            {"suspects", names_json(report, verdict.suspects)},
            {"suspects_hostlist", json_text(suspects_hostlist(report, verdict))},
            {"notes", texts_json(verdict.notes)},
            {"exit_code", verdict.exit_code}};
}

Json measure_json(const PairsMeasure& measure) {
    return {{"seconds", static_cast<double>(measure.time.count()) / 1000},
            {"message_size", measure.message_size},
            {"queue_pairs", measure.queue_pairs},
            {"depth", measure.depth},
            {"traffic_class", measure.traffic_class},
            {"service_level", measure.service_level}};
}

} // namespace

nlohmann::ordered_json pairs_json(const PairsReport& report, const PairsVerdict& verdict) {
    auto nodes = Json::array();
    for (std::size_t i = 0; i < report.nodes.size(); ++i) {
        nodes.push_back(node_report(report.nodes[i], i < verdict.nodes.size() ? verdict.nodes[i] : NodeScore()));
    }
    auto results = Json::array();
    for (std::size_t i = 0; i < report.results.size(); ++i) {
        const auto state = i < verdict.results.size() ? verdict.results[i] : PairState::Unknown;
        results.push_back(result_json(report, report.results[i], state));
    }
    return {{"schema", 1},
            {"schedule", report.schedule},
            {"started", report.started},
            {"seconds", report.seconds},
            {"ended_early", json_text(report.ended_early)},
            {"planned", report.planned},
            {"on_gpu", report.on_gpu},
            {"with_tcp", report.with_tcp},
            {"measure", measure_json(report.measure)},
            {"judgement", verdict_json(report, verdict)},
            {"nodes", std::move(nodes)},
            {"results", std::move(results)}};
}

} // namespace rdma_nccl
