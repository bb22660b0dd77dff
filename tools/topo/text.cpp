// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/table.h"
#include "lib/plan/placement_report.h"
#include "tools/topo/topo.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

constexpr std::string_view indent = "  ";

std::string heading(const NodePlan& node, const std::string& host) {
    if (node.places.problem) {
        return format_text("host {}: {}\n", or_dash(printable(host)), *node.places.problem);
    }
    const auto& topology = node.places.topology;
    return format_text("host {}: {}, {}, {} ({})\n", or_dash(printable(host)), count_text(topology.packages, "package"),
                       count_text(topology.cores.size(), "core"), count_text(topology.cpus().size(), "CPU"),
                       printable(topology.source));
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

std::string gpu_table(const NodePlan& node) {
    const auto& placed = node.places.placed;
    std::vector<TableRow> rows = {{"GPU", "PCI", "NUMA", "CPUS", "NEAREST HCAS", "THROUGH"}};
    for (std::size_t i = 0; i < placed.gpus.size(); ++i) {
        const auto* gpu = gpu_at(node, i);
        const auto& row = placed.placement.gpu_to_hca.at(i);
        const auto nearest = placed.placement.tells_nearness ? nearest_hcas(row) : std::vector<std::size_t>();
        rows.push_back({printable(placed.gpu_ids.at(i), 16), gpu == nullptr ? "-" : gpu->pci,
                        gpu == nullptr ? "-" : number_text(gpu->numa_node),
                        gpu == nullptr ? "-" : or_dash(place_of(*gpu, node.places.topology).cpus.list()),
                        or_dash(joined(names_at(placed.ports, nearest), ",")),
                        nearest.empty() ? "-" : std::string(distance_text(row[nearest.front()]))});
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

std::string gpus_of(const NodePlacement& placed, const RankPlacement& rank) {
    auto names = names_at(placed.gpu_ids, rank.gpus);
    std::ranges::transform(names, names.begin(), [](const std::string& name) { return printable(name, 16); });
    return or_dash(joined(names, ","));
}

} // namespace

std::string memory_text(std::uint64_t mib) {
    const double gib = static_cast<double>(mib) / 1024;
    return gib >= 10 ? format_text("{:.0f} GiB", gib) : format_text("{:.1f} GiB", gib);
}

std::string titled_lines(std::string_view title, const std::vector<std::string>& texts) {
    std::string text;
    for (const auto& line : texts) {
        text += format_text("{}: {}\n", title, line);
    }
    return text;
}

const Gpu* gpu_at(const NodePlan& node, std::size_t i) {
    const auto& position = node.places.placed.gpus.at(i);
    return position ? &node.facts.fabric.gpus.at(*position) : nullptr;
}

std::vector<std::size_t> nearest_hcas(const std::vector<Distance>& row) {
    std::vector<std::size_t> nearest;
    for (std::size_t hca = 0; hca < row.size(); ++hca) {
        if (row[hca] == std::ranges::min(row)) {
            nearest.push_back(hca);
        }
    }
    return nearest;
}

std::vector<std::string> names_at(const std::vector<std::string>& names, const std::vector<std::size_t>& indices) {
    std::vector<std::string> some;
    std::ranges::transform(indices, std::back_inserter(some), [&](std::size_t i) { return names.at(i); });
    return some;
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
        auto& row = rows.emplace_back(TableRow{format_text("{}", i), gpus_of(placed, rank)});
        append(row, rank_cells(placed, rank));
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

} // namespace rdma_nccl
