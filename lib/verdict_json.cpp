// SPDX-License-Identifier: Apache-2.0
#include "lib/text.h"
#include "lib/verdict.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of_role(NetdevRole role) {
    switch (role) {
    case NetdevRole::IncludesRdma:
        return "includes RDMA";
    case NetdevRole::Ipoib:
        return "IPoIB";
    case NetdevRole::Plain:
        break;
    }
    return "sockets";
}

Json bytes_json(const Bytes& bytes) {
    return {{"sent", bytes.tx}, {"received", bytes.rx}, {"at_least", bytes.at_least}};
}

/// Null where RDMA's bytes are not counted.
Json share_json(bool counted, double share) {
    return counted ? Json(share) : Json();
}

Json port_json(const PortTraffic& port) {
    Json json = {{"port", port.port}, {"expected", port.expected}, {"counted_by", name_of(port.source)}};
    json["bytes"] = port.source == ByteSource::None ? Json() : bytes_json(port.bytes);
    json["problem"] = port.problem;
    return json;
}

Json log_json(const LogEvidence& log) {
    return {{"ranks", log.ranks},
            {"version", log.version},
            {"networks", log.networks},
            {"connections",
             {{"rdma", log.rdma},
              {"rdma_gdr", log.rdma_gdr},
              {"sockets", log.sockets},
              {"nvlink", log.nvlink},
              {"other", log.other}}},
            {"hcas", log.hcas},
            {"causes", log.causes}};
}

Json node_json(const NodeVerdict& node) {
    const auto& evidence = node.evidence;
    Json ports = Json::array();
    for (const auto& port : evidence.traffic.ports) {
        ports.push_back(port_json(port));
    }
    Json netdevs = Json::array();
    for (const auto& netdev : evidence.traffic.netdevs) {
        netdevs.push_back({{"netdev", netdev.netdev},
                           {"role", name_of_role(netdev.role)},
                           {"bytes", bytes_json(netdev.bytes)},
                           {"problem", netdev.problem}});
    }
    const auto& qps = evidence.qps;
    return {{"node", node.node},
            {"verdict", name_of(node.verdict)},
            {"evidence", name_of(node.grade)},
            {"share", share_json(evidence.traffic.has_source, node.share)},
            {"gpu_direct", name_of(node.gpu_direct)},
            {"seconds", evidence.traffic.seconds},
            {"rdma", bytes_json(node.rdma)},
            {"sockets", bytes_json(node.sockets)},
            {"elsewhere", bytes_json(node.elsewhere)},
            {"estimate", evidence.traffic.estimate},
            {"exclusive", evidence.exclusive},
            {"ports", std::move(ports)},
            {"netdevs", std::move(netdevs)},
            {"queue_pairs",
             {{"known", qps.known},
              {"unknown_why", qps.unknown_why},
              {"most_own", qps.most_own},
              {"own_ports", qps.own_ports},
              {"others", qps.others}}},
            {"nccl_log", evidence.log ? log_json(*evidence.log) : Json()},
            {"why", node.why},
            {"notes", node.notes}};
}

} // namespace

std::string verdict_json(const StepVerdict& step, std::uint32_t job_id, std::uint32_t step_id) {
    Json nodes = Json::array();
    for (const auto& node : step.nodes) {
        nodes.push_back(node_json(node));
    }
    const bool all_count =
        !step.nodes.empty() && std::all_of(step.nodes.begin(), step.nodes.end(),
                                           [](const auto& node) { return node.evidence.traffic.has_source; });
    const Json json = {{"schema", 1},
                       {"job", job_id == 0 ? Json() : Json(job_id)},
                       {"step", job_id == 0 ? Json() : Json(step_id)},
                       {"verdict", name_of(step.verdict)},
                       {"evidence", name_of(step.grade)},
                       {"share", share_json(all_count, step.share)},
                       {"gpu_direct", name_of(step.gpu_direct)},
                       {"rdma", bytes_json(step.rdma)},
                       {"sockets", bytes_json(step.sockets)},
                       {"why", step.why},
                       {"silent", step.silent},
                       {"nodes", std::move(nodes)}};
    return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

} // namespace rdma_nccl
