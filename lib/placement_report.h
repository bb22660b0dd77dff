// SPDX-License-Identifier: Apache-2.0
// A placement in words: the same for the plugin's details and for `rdma-nccl explain`.
#pragma once

#include "lib/node_placement.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// "GPU 3 (0000:73:00.0), CPUs 12-15 (4 cores), memory of NUMA node 0, mlx5_4:1 first (one PCIe switch)".
std::string rank_text(const NodePlacement& node, const Fabric& fabric, const RankPlacement& rank);

/// One line for each rank of the node: "local rank 3: GPU 3 ...".
std::vector<std::string> placement_lines(const NodePlacement& node, const Fabric& fabric);

/// Why the ranks have the CPUs that they have, in a few words.
std::string binding_why(const NodePlacement& node);

/// The value of RDMA_NCCL_CPUS for these masks, and back; nullopt for a text that is none, or not of so many ranks.
std::string write_masks(const std::vector<CpuSet>& masks);
std::optional<std::vector<CpuSet>> read_masks(std::string_view text, std::size_t ranks);

} // namespace rdma_nccl
