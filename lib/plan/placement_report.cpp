// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/placement_report.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>

namespace rdma_nccl {

namespace {

std::string gpu_text(const NodePlacement& node, const Fabric& fabric, std::size_t number) {
    const auto& position = node.gpus.at(number);
    return format_text("{}{}", printable(node.gpu_ids.at(number)),
                       position ? format_text(" ({})", fabric.gpus.at(*position).pci) : "");
}

std::string gpus_text(const NodePlacement& node, const Fabric& fabric, const RankPlacement& rank) {
    if (rank.gpus.empty()) {
        return node.seen_gpus.value_or(0) > 0 ? "a GPU that cannot be told" : "no GPU";
    }
    std::string text = rank.gpus.size() == 1 ? "GPU " : "GPUs ";
    for (const auto number : rank.gpus) {
        text += (number == rank.gpus.front() ? "" : ", ") + gpu_text(node, fabric, number);
    }
    return text;
}

std::string cpus_text(const RankPlacement& rank) {
    if (rank.cpus.empty()) {
        return "CPUs not known";
    }
    std::string text = format_text("CPUs {}", rank.cpus.list());
    if (rank.cores > 0) {
        text += format_text(" ({} core{})", rank.cores, rank.cores == 1 ? "" : "s");
    }
    if (rank.gpu_to_cpus == Distance::SamePackage || rank.gpu_to_cpus == Distance::Other) {
        text += format_text(", {}", rank.gpu_to_cpus == Distance::Other ? "far from its GPU (another package)"
                                                                        : "another NUMA node than its GPU");
    }
    return text;
}

} // namespace

std::string rank_text(const NodePlacement& node, const Fabric& fabric, const RankPlacement& rank) {
    std::string text = format_text("{}, {}", gpus_text(node, fabric, rank), cpus_text(rank));
    if (node.binds_memory && rank.memory_node) {
        text += format_text(", memory of NUMA node {}", *rank.memory_node);
    }
    if (!rank.hcas.empty()) {
        text += format_text(", {} first", node.ports.at(rank.hcas.front()));
        if (rank.to_hca != Distance::Unknown) {
            text += format_text(" ({})", distance_text(rank.to_hca));
        }
    }
    return text;
}

std::vector<std::string> placement_lines(const NodePlacement& node, const Fabric& fabric) {
    std::vector<std::string> lines;
    for (std::size_t rank = 0; rank < node.placement.ranks.size(); ++rank) {
        lines.push_back(format_text("local rank {}: {}", rank, rank_text(node, fabric, node.placement.ranks[rank])));
    }
    return lines;
}

std::string binding_why(const NodePlacement& node) {
    if (!node.binds_cpus) {
        return "nothing is bound";
    }
    const auto& ranks = node.placement.ranks;
    const auto any = [&](CpuSource source) {
        return std::any_of(ranks.begin(), ranks.end(),
                           [source](const RankPlacement& rank) { return rank.source == source; });
    };
    if (any(CpuSource::Scarce)) {
        return "fewer CPUs than ranks: left in common";
    }
    if (!any(CpuSource::Shared)) {
        return "each rank has CPUs of its own: kept";
    }
    return any(CpuSource::Slurm) ? "what tasks had in common is shared out, own CPUs are kept"
                                 : "the tasks shared their CPUs: divided among them, near the GPUs";
}

std::string write_masks(const std::vector<CpuSet>& masks) {
    std::string text;
    const bool same =
        std::all_of(masks.begin(), masks.end(), [&](const CpuSet& mask) { return mask == masks.front(); });
    for (std::size_t i = 0; i < masks.size() && (i == 0 || !same); ++i) {
        text += (i == 0 ? "" : "/") + masks[i].list();
    }
    return text;
}

std::optional<std::vector<CpuSet>> read_masks(std::string_view text, std::size_t ranks) {
    std::vector<CpuSet> masks;
    for (const auto part : split(text, '/')) {
        const auto mask = CpuSet::parse_list(part);
        if (!mask || mask->empty()) {
            return std::nullopt;
        }
        masks.push_back(*mask);
    }
    if (masks.size() == 1) {
        masks.resize(ranks, CpuSet(masks.front()));
    }
    return masks.size() == ranks ? std::optional(std::move(masks)) : std::nullopt;
}

} // namespace rdma_nccl
