// SPDX-License-Identifier: Apache-2.0
// Describes a placement in words, both for the plugin's details and for `rdma-nccl explain`.
#pragma once

#include "lib/plan/node_placement.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns "GPU 3 (0000:73:00.0), CPUs 12-15 (4 cores), memory of NUMA node 0, mlx5_4:1 first (one PCIe switch)".
std::string rank_text(const NodePlacement& node, const Fabric& fabric, const RankPlacement& rank);

/// Returns one line for each rank of the node: "local rank 3: GPU 3 ...".
std::vector<std::string> placement_lines(const NodePlacement& node, const Fabric& fabric);

/// Returns, in a few words, why the ranks have their CPUs.
std::string binding_why(const NodePlacement& node);

/// Convert masks to the value of RDMA_NCCL_CPUS and back. Reading fails unless the text has `ranks` valid masks.
std::string write_masks(const std::vector<CpuSet>& masks);
std::optional<std::vector<CpuSet>> read_masks(std::string_view text, std::size_t ranks);

} // namespace rdma_nccl
