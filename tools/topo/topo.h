// SPDX-License-Identifier: Apache-2.0
// rdma-nccl topo: GPUs, HCAs and CPUs of this node, their distances, and the places of its ranks.
#pragma once

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "tools/node/node_plan.h"

#include <cstdint>
#include <string>

namespace rdma_nccl {

/// Returns the report for users in ASCII: NUMA nodes, GPUs with their nearest HCAs, distances, ranks, warnings.
std::string topo_text(const NodePlan& node, const std::string& host);

/// Returns a size like "512 GiB" or "1.5 GiB".
std::string memory_text(std::uint64_t mib);

template<typename T>
std::string number_text(const std::optional<T>& number) {
    return number ? format_text("{}", *number) : "-";
}

/// Returns the GPU that ranks see at this index; nullptr if its PCI function is unknown.
const Gpu* gpu_at(const NodePlan& node, std::size_t i);

/// Returns those of `names` at these indices.
std::vector<std::string> names_at(const std::vector<std::string>& names, const std::vector<std::size_t>& indices);

/// Returns the columns CPUs, cores, threads, memory node, first HCA and the distance to it of a rank; "-": none.
TableRow rank_cells(const NodePlacement& placed, const RankPlacement& rank);

/// Returns only the table of the ranks; also used by `explain`.
std::string ranks_table(const NodePlan& node, std::string_view indent);

/// Returns the report for programs, schema 1; doc/schema/topo.json lists the keys. Distances are distance_name()s;
/// distances[i][j] is from GPU i to HCA j.
Json topo_json(const NodePlan& node, const std::string& host);
/// Returns the JSON Schema of topo_json().
Json topo_schema();

/// Returns the report on the ranks only, also used by `explain`: {"source","why","ranks","gpu_order","warnings"}.
Json placement_json(const NodePlan& node);

/// Returns a picture for a browser, in light and dark, that needs no other files: packages, NUMA nodes with their
/// cores, PCIe switches, GPUs, HCAs, and the ranks' places in colours.
std::string topo_svg(const NodePlan& node, const std::string& host);

} // namespace rdma_nccl
