// SPDX-License-Identifier: Apache-2.0
// rdma-nccl topo: GPUs, HCAs and CPUs of this node, how far they are from each other, and where its ranks belong
// (doc/design.md, Commands).
#pragma once

#include "lib/format.h"
#include "lib/json.h"
#include "tools/node_plan.h"

#include <cstdint>
#include <string>

namespace rdma_nccl {

/// For people: NUMA nodes, GPUs with their nearest HCAs, distances, ranks, warnings. ASCII.
std::string topo_text(const NodePlan& node, const std::string& host);

/// "512 GiB", "1.5 GiB".
std::string memory_text(std::uint64_t mib);

template<typename T>
std::string number_text(const std::optional<T>& number) {
    return number ? format_text("{}", *number) : "-";
}

/// A line for each, "TITLE: TEXT".
std::string titled_lines(std::string_view title, const std::vector<std::string>& texts);

/// The GPU that ranks see at this place; nullptr: its PCI function is not known.
const Gpu* gpu_at(const NodePlan& node, std::size_t i);

/// The HCAs of a row of distances that are equally near, and nearest.
std::vector<std::size_t> nearest_hcas(const std::vector<Distance>& row);

/// Those of `names` at these places.
std::vector<std::string> names_at(const std::vector<std::string>& names, const std::vector<std::size_t>& places);

/// The ranks alone, as a table; also in `explain`.
std::string ranks_table(const NodePlan& node, std::string_view indent);

/// For programs, schema 1:
/// {"schema","host","source","problem","packages","cores","cpus","numa_nodes":[{"number","cpus",
/// "memory_mib","package","special"}],"gpus":[{"id","pci","vendor","numa_node","cpus","nearest_hcas","distance"}],
/// "hcas":[{"port","pci","numa_node","cpus"}],"distances":[[...]],"tells_nearness","ranks":[{"local_rank","gpus",
/// "mask","cpus","cores","threads","source","memory_node","gpu_to_cpus","hcas","to_hca"}],"gpu_order","binds_cpus",
/// "binds_memory","why","warnings","notes"}. Distances are distance_name()s; distances[i][j] is from GPU i to HCA j.
Json topo_json(const NodePlan& node, const std::string& host);
/// JSON Schema of it.
Json topo_schema();

/// The ranks alone, also in `explain`: {"source","why","ranks","gpu_order","warnings"}.
Json places_json(const NodePlan& node);

/// A picture: packages, NUMA nodes with their cores, PCIe switches, GPUs, HCAs, and the ranks' places in colours; for a
/// browser, light and dark, without anything from elsewhere.
std::string topo_svg(const NodePlan& node, const std::string& host);

} // namespace rdma_nccl
