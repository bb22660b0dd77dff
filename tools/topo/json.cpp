// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "lib/plan/placement_report.h"
#include "tools/topo/topo.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

static void fields(auto& f, Row<NumaNode> /*row*/) {
    f("number", "as the kernel numbers it", &NumaNode::number);
    f("cpus", "near to it: 0-3,8", [](const NumaNode& n) { return n.cpus.list(); });
    f("memory_mib", "MiB", &NumaNode::memory_mib);
    f("package", "the nearest, from 0", &NumaNode::package);
    f("special", "no core's own: a device's memory, or high-bandwidth memory", &NumaNode::special);
}

namespace {

struct GpuRow {
    const NodePlan& node;
    const std::string& id;
    const Gpu* gpu; ///< nullptr: its PCI function is unknown
    const std::vector<Distance>& to_hcas;
    std::vector<std::size_t> nearest;
};

void fields(auto& f, Row<GpuRow> /*row*/) {
    f("id", "as CUDA_VISIBLE_DEVICES names it", [](const GpuRow& r) { return r.id; });
    f("pci", "0000:53:00.0; null: not known",
      [](const GpuRow& r) { return r.gpu == nullptr ? std::nullopt : std::optional(r.gpu->pci); });
    f("vendor", "nvidia or amd; null: not known",
      [](const GpuRow& r) { return r.gpu == nullptr ? std::nullopt : std::optional(r.gpu->vendor); });
    f("numa_node", "null: not known",
      [](const GpuRow& r) { return r.gpu == nullptr ? std::optional<int>() : r.gpu->numa_node; });
    f("cpus", "near to it: 0-3,8; empty: not known", [](const GpuRow& r) {
        return r.gpu == nullptr ? std::string() : place_of(*r.gpu, r.node.places.topology).cpus.list();
    });
    f("nearest_hcas", "ports that are equally near: mlx5_1:1",
      [](const GpuRow& r) { return names_at(r.node.places.placed.ports, r.nearest); });
    f("distance", "to these: same-device, one-switch, several-switches, ... or unknown",
      [](const GpuRow& r) { return distance_name(r.nearest.empty() ? Distance::Unknown : r.to_hcas[r.nearest[0]]); });
}

std::vector<GpuRow> gpu_rows(const NodePlan& node) {
    const auto& placed = node.places.placed;
    std::vector<GpuRow> rows;
    for (std::size_t i = 0; i < placed.gpus.size(); ++i) {
        const auto& to_hcas = placed.placement.gpu_to_hca.at(i);
        rows.push_back({node, placed.gpu_ids.at(i), gpu_at(node, i), to_hcas, nearest_hcas(to_hcas)});
    }
    return rows;
}

struct HcaRow {
    const PortChoice& port;
    const Hca* hca; ///< nullptr: unknown
    const Topology& topology;
};

void fields(auto& f, Row<HcaRow> /*row*/) {
    f("port", "that NCCL uses: mlx5_1:1", [](const HcaRow& r) { return r.port.name(); });
    f("pci", "0000:53:00.0; null: no PCI device",
      [](const HcaRow& r) { return text_if_any(r.hca == nullptr ? std::string_view() : r.hca->pci); });
    f("numa_node", "null: not known",
      [](const HcaRow& r) { return r.hca == nullptr ? std::optional<int>() : r.hca->numa_node; });
    f("cpus", "near to it: 0-3,8; empty: not known",
      [](const HcaRow& r) { return r.hca == nullptr ? std::string() : place_of(*r.hca, r.topology).cpus.list(); });
}

std::vector<HcaRow> hca_rows(const NodePlan& node) {
    std::vector<HcaRow> rows;
    for (const auto* port : node.plan.fabric.used()) {
        rows.push_back({*port, node.facts.fabric.find_hca(port->hca), node.places.topology});
    }
    return rows;
}

std::vector<std::vector<std::string_view>> distance_names(const DistanceTable& distances) {
    std::vector<std::vector<std::string_view>> table;
    for (const auto& row : distances) {
        auto& names = table.emplace_back();
        for (const auto distance : row) {
            names.push_back(distance_name(distance));
        }
    }
    return table;
}

std::string_view source_name(CpuSource source) {
    return source == CpuSource::Slurm ? "slurm" : source == CpuSource::Shared ? "shared" : "scarce";
}

struct RankRow {
    const NodePlacement& placed;
    const RankPlacement& rank;
    std::size_t number;
};

void fields(auto& f, Row<RankRow> /*row*/) {
    f("local_rank", "on this node, from 0", [](const RankRow& r) { return r.number; });
    f("gpus", "the first is the one that it drives",
      [](const RankRow& r) { return names_at(r.placed.gpu_ids, r.rank.gpus); });
    f("mask", "CPUs that Slurm gave it: 0-3,8; empty: not known", [](const RankRow& r) {
        return r.number < r.placed.masks.size() ? r.placed.masks[r.number].list() : std::string();
    });
    f("cpus", "that it is to have: 0-3,8", [](const RankRow& r) { return r.rank.cpus.list(); });
    f("cores", "physical ones in cpus", [](const RankRow& r) { return r.rank.cores; });
    f("threads", "for OMP_NUM_THREADS", [](const RankRow& r) { return r.rank.threads(); });
    f("source", "slurm: its own CPUs; shared: a part of common ones; scarce: all of them",
      [](const RankRow& r) { return source_name(r.rank.source); });
    f("memory_node", "NUMA node to prefer; null: none", [](const RankRow& r) { return r.rank.memory_node; });
    f("gpu_to_cpus", "distance: same-numa, same-package, other or unknown",
      [](const RankRow& r) { return distance_name(r.rank.gpu_to_cpus); });
    f("hcas", "ports, nearest first: mlx5_1:1", [](const RankRow& r) { return names_at(r.placed.ports, r.rank.hcas); });
    f("to_hca", "distance to the first of them", [](const RankRow& r) { return distance_name(r.rank.to_hca); });
}

std::vector<RankRow> rank_rows(const NodePlacement& placed) {
    std::vector<RankRow> rows;
    for (const auto& rank : placed.placement.ranks) {
        rows.push_back({placed, rank, rows.size()});
    }
    return rows;
}

std::vector<std::string> gpus_in_order(const NodePlacement& placed) {
    return names_at(placed.gpu_ids, placed.placement.gpu_order);
}

struct TopoReport {
    const std::string& host;
    const NodePlan& node;
    const Topology& topology;
    const NodePlacement& placed;
};

void fields(auto& f, Row<TopoReport> /*row*/) {
    f("schema", "1", [](const TopoReport& /*r*/) { return 1U; });
    f("host", "this node", [](const TopoReport& r) { return r.host; });
    f("source", "of the topology: hwloc 2.9.0, or a file's name",
      [](const TopoReport& r) { return r.topology.source; });
    f("problem", "why there is no topology; null: there is one",
      [](const TopoReport& r) { return r.node.places.problem; });
    f("packages", "how many there are", [](const TopoReport& r) { return r.topology.packages; });
    f("cores", "physical ones", [](const TopoReport& r) { return r.topology.cores.size(); });
    f("cpus", "that are online: 0-63", [](const TopoReport& r) { return r.topology.cpus().list(); });
    f("numa_nodes", "", [](const TopoReport& r) -> const std::vector<NumaNode>& { return r.topology.numa_nodes; });
    f("gpus", "that the ranks see", [](const TopoReport& r) { return gpu_rows(r.node); });
    f("hcas", "ports that NCCL uses", [](const TopoReport& r) { return hca_rows(r.node); });
    f("distances", "for each of gpus, those to each of hcas",
      [](const TopoReport& r) { return distance_names(r.placed.placement.gpu_to_hca); });
    f("tells_nearness", "false: all HCAs are alike to all GPUs",
      [](const TopoReport& r) { return r.placed.placement.tells_nearness; });
    f("ranks", "", [](const TopoReport& r) { return rank_rows(r.placed); });
    f("gpu_order", "that makes LOCAL_RANK's GPU the near one; empty: as it is",
      [](const TopoReport& r) { return gpus_in_order(r.placed); });
    f("binds_cpus", "ranks are bound to their CPUs", [](const TopoReport& r) { return r.placed.binds_cpus; });
    f("binds_memory", "ranks prefer their memory node", [](const TopoReport& r) { return r.placed.binds_memory; });
    f("why", "the ranks have the CPUs that they have, in words",
      [](const TopoReport& r) { return binding_why(r.placed); });
    f("warnings", "in words", [](const TopoReport& r) { return r.placed.placement.warnings; });
    f("notes", "in words", [](const TopoReport& r) { return r.placed.placement.notes; });
}

} // namespace

Json places_json(const NodePlan& node) {
    const auto& placed = node.places.placed;
    return {{"source", node.places.masks_source},
            {"why", binding_why(placed)},
            {"ranks", report_json(rank_rows(placed))},
            {"gpu_order", gpus_in_order(placed)},
            {"warnings", placed.placement.warnings}};
}

Json topo_json(const NodePlan& node, const std::string& host) {
    return report_json(TopoReport{host, node, node.places.topology, node.places.placed});
}

Json topo_schema() {
    return report_schema<TopoReport>();
}

} // namespace rdma_nccl
