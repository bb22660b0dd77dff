// SPDX-License-Identifier: Apache-2.0
#include "lib/placement_report.h"
#include "tools/json.h"
#include "tools/topo.h"

#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

Json numa_json(const Topology& topology) {
    auto list = Json::array();
    for (const auto& node : topology.numa_nodes) {
        list.push_back({{"number", node.number},
                        {"cpus", node.cpus.list()},
                        {"memory_mib", node.memory_mib},
                        {"package", node.package},
                        {"special", node.special}});
    }
    return list;
}

Json gpus_json(const NodePlan& node) {
    auto list = Json::array();
    for (std::size_t i = 0; i < node.places.placed.gpus.size(); ++i) {
        const Gpu* const gpu = gpu_at(node, i);
        const auto& row = node.places.placed.placement.gpu_to_hca.at(i);
        const auto nearest = nearest_hcas(row);
        list.push_back({{"id", json_ascii(node.places.placed.gpu_ids.at(i))},
                        {"pci", gpu == nullptr ? Json() : Json(gpu->pci)},
                        {"vendor", gpu == nullptr ? Json() : Json(gpu->vendor)},
                        {"numa_node", gpu == nullptr ? Json() : or_null(gpu->numa_node)},
                        {"cpus", gpu == nullptr ? "" : place_of(*gpu, node.places.topology).cpus.list()},
                        {"nearest_hcas", texts_json(names_at(node.places.placed.ports, nearest))},
                        {"distance", nearest.empty() ? "unknown" : distance_name(row[nearest.front()])}});
    }
    return list;
}

Json hcas_json(const NodePlan& node) {
    auto list = Json::array();
    for (const auto* port : node.plan.fabric.used()) {
        const auto* hca = node.facts.fabric.find_hca(port->hca);
        list.push_back({{"port", json_ascii(port->hca + ":" + std::to_string(port->port))},
                        {"pci", hca == nullptr || hca->pci.empty() ? Json() : Json(hca->pci)},
                        {"numa_node", hca == nullptr ? Json() : or_null(hca->numa_node)},
                        {"cpus", hca == nullptr ? "" : place_of(*hca, node.places.topology).cpus.list()}});
    }
    return list;
}

Json distances_json(const DistanceTable& distances) {
    auto table = Json::array();
    for (const auto& row : distances) {
        auto list = Json::array();
        for (const auto distance : row) {
            list.push_back(distance_name(distance));
        }
        table.push_back(std::move(list));
    }
    return table;
}

std::string_view source_name(CpuSource source) {
    return source == CpuSource::Slurm ? "slurm" : source == CpuSource::Shared ? "shared" : "scarce";
}

Json ranks_json(const NodePlacement& placed) {
    auto list = Json::array();
    for (std::size_t i = 0; i < placed.placement.ranks.size(); ++i) {
        const auto& rank = placed.placement.ranks[i];
        list.push_back({{"local_rank", i},
                        {"gpus", texts_json(names_at(placed.gpu_ids, rank.gpus))},
                        {"mask", i < placed.masks.size() ? placed.masks[i].list() : ""},
                        {"cpus", rank.cpus.list()},
                        {"cores", rank.cores},
                        {"threads", rank.threads()},
                        {"source", source_name(rank.source)},
                        {"memory_node", or_null(rank.memory_node)},
                        {"gpu_to_cpus", distance_name(rank.gpu_to_cpus)},
                        {"hcas", texts_json(names_at(placed.ports, rank.hcas))},
                        {"to_hca", distance_name(rank.to_hca)}});
    }
    return list;
}

Json order_json(const NodePlacement& placed) {
    return texts_json(names_at(placed.gpu_ids, placed.placement.gpu_order));
}

} // namespace

nlohmann::ordered_json places_json(const NodePlan& node) {
    const auto& placed = node.places.placed;
    return {{"source", json_ascii(node.places.masks_source)},
            {"why", binding_why(placed)},
            {"ranks", ranks_json(placed)},
            {"gpu_order", order_json(placed)},
            {"warnings", texts_json(placed.placement.warnings)}};
}

nlohmann::ordered_json topo_json(const NodePlan& node, const std::string& host) {
    const auto& placed = node.places.placed;
    const auto& topology = node.places.topology;
    return {{"schema", 1},
            {"host", json_ascii(host)},
            {"source", json_ascii(topology.source)},
            {"problem", node.places.problem ? Json(json_ascii(*node.places.problem)) : Json()},
            {"packages", topology.packages},
            {"cores", topology.cores.size()},
            {"cpus", topology.cpus().list()},
            {"numa_nodes", numa_json(topology)},
            {"gpus", gpus_json(node)},
            {"hcas", hcas_json(node)},
            {"distances", distances_json(placed.placement.gpu_to_hca)},
            {"tells_nearness", placed.placement.tells_nearness},
            {"ranks", ranks_json(placed)},
            {"gpu_order", order_json(placed)},
            {"binds_cpus", placed.binds_cpus},
            {"binds_memory", placed.binds_memory},
            {"why", binding_why(placed)},
            {"warnings", texts_json(placed.placement.warnings)},
            {"notes", texts_json(placed.placement.notes)}};
}

} // namespace rdma_nccl
