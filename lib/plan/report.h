// SPDX-License-Identifier: Apache-2.0
// Describes a plan and a placement in words, for the plugin's details and for the command.
#pragma once

#include "lib/plan/node_placement.h"
#include "lib/plan/plan.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns the ports in use: "8 HCA ports (mlx5_1:1..mlx5_8:1), GID index 3", "no HCA".
std::string fabric_summary(const FabricChoice& fabric);

/// Returns the normal output of a step: layout, ranks, head, HCAs and GID index on one line.
std::string plan_summary(const Plan& plan, const Step& step);

/// Returns the whole plan for verbose=2 and 3: one line for each decision, with its source. `task_variables` may be
/// empty.
std::vector<std::string> plan_lines(const Plan& plan, const Step& step, const std::vector<Variable>& task_variables);

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
