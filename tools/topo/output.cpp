// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/topo.h"

#include "lib/base/lists.h"
#include "lib/base/report_fields.h"
#include "lib/base/text.h"
#include "lib/plan/node_placement.h"
#include "tools/common/print.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::string_view indent = "  ";

std::string heading(const NodePlan& node, const std::string& host) {
    if (node.places.problem) {
        return format_text("host {}: {}\n", or_dash(printable(host)), *node.places.problem);
    }
    const auto& topology = node.places.topology;
    return format_text("host {}: {}, {}, {} ({})\n", or_dash(printable(host)),
                       format_count(topology.packages, "package"), format_count(topology.cores.size(), "core"),
                       format_count(topology.cpus().size(), "CPU"), printable(topology.source));
}

std::string numa_table(const Topology& topology) {
    std::vector<TableRow> rows = {{"NUMA NODE", "PACKAGE", "CPUS", "MEMORY"}};
    for (const auto& node : topology.numa_nodes) {
        if (node.special && node.memory_mib == 0) {
            continue; // a driver keeps it for memory that may be added
        }
        rows.push_back({format_text("{}", node.number), node.special ? "-" : format_text("{}", node.package),
                        node.special ? "none of its own" : or_dash(node.cpus.list()), memory_text(node.memory_mib)});
    }
    return aligned_table(rows, indent);
}

/// A GPU that the ranks see. What is known of its PCI function and its HCAs: several if they are equally near.
struct GpuRow {
    std::string id;
    std::optional<std::string> pci;
    std::optional<std::string> vendor;
    std::optional<int> numa_node;
    std::string cpus;
    std::vector<std::string> nearest_hcas;
    std::optional<Distance> distance;
};

std::optional<std::string_view> name_if_any(const std::optional<Distance>& distance) {
    return distance ? std::optional(distance_name(*distance)) : std::nullopt;
}

void fields(auto& f, Row<GpuRow> /*row*/) {
    f("id", "as CUDA_VISIBLE_DEVICES names it", &GpuRow::id);
    f("pci", "0000:53:00.0; null: not known", &GpuRow::pci);
    f("vendor", "nvidia or amd; null: not known", &GpuRow::vendor);
    f("numa_node", "null: not known", &GpuRow::numa_node);
    f("cpus", "near to it: 0-3,8; empty: not known", &GpuRow::cpus);
    f("nearest_hcas", "ports that are equally near: mlx5_1:1", &GpuRow::nearest_hcas);
    f("distance", "to these: same-device, one-switch, several-switches, ... or unknown; null: there is no HCA",
      [](const GpuRow& r) { return name_if_any(r.distance); });
}

std::vector<GpuRow> gpu_rows(const NodePlan& node) {
    const auto& placed = node.places.placed;
    std::vector<GpuRow> rows;
    for (std::size_t i = 0; i < placed.gpus.size(); ++i) {
        auto& row = rows.emplace_back();
        row.id = placed.gpu_ids.at(i);
        if (const auto& to_hcas = placed.placement.gpu_to_hca.at(i); !to_hcas.empty()) {
            const auto nearest = std::ranges::min(to_hcas);
            row.distance = nearest.distance;
            row.nearest_hcas = names_at(
                placed.ports, positions_where(to_hcas, [nearest](const HcaDistance& d) { return d == nearest; }));
        }
        if (const auto* const gpu = gpu_at(node, i)) {
            row.pci = gpu->pci;
            row.vendor = gpu->vendor;
            row.numa_node = gpu->numa_node;
            row.cpus = place_of(*gpu, node.places.topology).cpus.list();
        }
    }
    return rows;
}

std::string gpu_table(const NodePlan& node) {
    std::vector<TableRow> rows = {{"GPU", "PCI", "NUMA", "CPUS", "NEAREST HCAS", "THROUGH"}};
    for (const auto& gpu : gpu_rows(node)) {
        const bool known = node.places.placed.placement.nearness_known && !gpu.nearest_hcas.empty();
        rows.push_back({printable(gpu.id, 16), gpu.pci.value_or("-"), number_text(gpu.numa_node), or_dash(gpu.cpus),
                        known ? joined(gpu.nearest_hcas, ",") : "-",
                        known ? std::string(distance_text(*gpu.distance)) : "-"});
    }
    return rows.size() > 1 ? aligned_table(rows, indent) : "  none\n";
}

std::string distance_table(const NodePlacement& placed) {
    std::vector<TableRow> rows = {TableRow{""}};
    append(rows.front(), placed.ports);
    for (std::size_t i = 0; i < placed.gpus.size(); ++i) {
        auto& row = rows.emplace_back(TableRow{format_text("GPU{}", printable(placed.gpu_ids.at(i), 16))});
        for (const auto distance : placed.placement.gpu_to_hca.at(i)) {
            row.emplace_back(distance_word(distance));
        }
    }
    return aligned_table(rows, indent) +
           "  PIX: one PCIe switch or card, PXB: several switches, PHB: host bridge, NODE: NUMA node,\n"
           "  PKG: another NUMA node of the package, SYS: another package\n";
}

} // namespace

std::string memory_text(std::uint64_t mib) {
    const double gib = static_cast<double>(mib) / 1024;
    return gib >= 10 ? format_text("{:.0f} GiB", gib) : format_text("{:.1f} GiB", gib);
}

const Gpu* gpu_at(const NodePlan& node, std::size_t i) {
    const auto& position = node.places.placed.gpus.at(i);
    return position ? &node.facts.fabric.gpus.at(*position) : nullptr;
}

std::vector<std::string> names_at(const std::vector<std::string>& names, const std::vector<std::size_t>& indices) {
    return mapped(indices, [&](std::size_t i) { return names.at(i); });
}

TableRow rank_cells(const NodePlacement& placed, const RankPlacement& rank) {
    return {or_dash(rank.cpus.list()),
            format_text("{}", rank.cores),
            placed.binds_cpus ? format_text("{}", rank.threads()) : "-",
            placed.binds_memory ? number_text(rank.memory_node) : "-",
            rank.hcas.empty() ? "-" : placed.ports.at(rank.hcas.front()),
            rank.hcas.empty() ? "-" : std::string(distance_text(rank.to_hca))};
}

std::string ranks_table(const NodePlan& node, std::string_view table_indent) {
    const auto& placed = node.places.placed;
    std::vector<TableRow> rows = {{"LOCAL RANK", "GPU", "CPUS", "CORES", "THREADS", "MEMORY", "HCA", "THROUGH"}};
    for (std::size_t i = 0; i < placed.placement.ranks.size(); ++i) {
        const auto& rank = placed.placement.ranks[i];
        auto gpus = names_at(placed.gpu_ids, rank.gpus);
        std::ranges::transform(gpus, gpus.begin(), [](const std::string& name) { return printable(name, 16); });
        append(rows.emplace_back(TableRow{format_text("{}", i), or_dash(joined(gpus, ","))}), rank_cells(placed, rank));
    }
    return aligned_table(rows, table_indent);
}

std::string topo_text(const NodePlan& node, const std::string& host) {
    const auto& placed = node.places.placed;
    std::string text = heading(node, host);
    if (!node.places.problem) {
        text += "\nNUMA nodes\n" + numa_table(node.places.topology);
    }
    text += "\nGPUs\n" + gpu_table(node);
    if (!placed.ports.empty() && !placed.gpus.empty()) {
        text += "\ndistances from GPUs to HCAs\n" + distance_table(placed);
    }
    text +=
        format_text("\nranks: {} ({})\n", binding_why(placed), node.places.masks_source) + ranks_table(node, indent);
    if (!placed.placement.gpu_order.empty()) {
        text += format_text("  {}={} makes LOCAL_RANK's GPU the near one\n", placed.order_variable,
                            joined(names_at(placed.gpu_ids, placed.placement.gpu_order), ","));
    }
    return text + titled_lines("warning", placed.placement.warnings) + titled_lines("note", placed.placement.notes);
}

static void fields(auto& f, Row<NumaNode> /*row*/) {
    f("number", "as the kernel numbers it", &NumaNode::number);
    f("cpus", "near to it: 0-3,8", [](const NumaNode& n) { return n.cpus.list(); });
    f("memory_mib", "MiB", &NumaNode::memory_mib);
    f("package", "the nearest, from 0", &NumaNode::package);
    f("special", "no core's own: a device's memory, or high-bandwidth memory", &NumaNode::special);
}

namespace {

struct HcaRow {
    std::string port;
    std::optional<std::string> pci;
    std::optional<int> numa_node;
    std::string cpus;
};

void fields(auto& f, Row<HcaRow> /*row*/) {
    f("port", "that NCCL uses: mlx5_1:1", &HcaRow::port);
    f("pci", "0000:53:00.0; null: no PCI device", &HcaRow::pci);
    f("numa_node", "null: not known", &HcaRow::numa_node);
    f("cpus", "near to it: 0-3,8; empty: not known", &HcaRow::cpus);
}

std::vector<HcaRow> hca_rows(const NodePlan& node) {
    std::vector<HcaRow> rows;
    for (const auto* port : node.plan.fabric.used()) {
        auto& row = rows.emplace_back();
        row.port = port->name();
        if (const auto* const hca = node.facts.fabric.find_hca(port->hca)) {
            row.pci = text_if_any(hca->pci);
            row.numa_node = hca->numa_node;
            row.cpus = place_of(*hca, node.places.topology).cpus.list();
        }
    }
    return rows;
}

std::vector<std::vector<std::string_view>> distance_names(const DistanceTable& distances) {
    return mapped(distances, [](const auto& row) { return mapped(row, distance_name); });
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
    f("to_hca", "distance to the first of them; null: there is no HCA",
      [](const RankRow& r) { return name_if_any(r.rank.hcas.empty() ? std::nullopt : std::optional(r.rank.to_hca)); });
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
      [](const TopoReport& r) { return r.placed.placement.nearness_known; });
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

Json placement_json(const NodePlan& node) {
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
