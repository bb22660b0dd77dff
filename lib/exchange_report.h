// SPDX-License-Identifier: Apache-2.0
// What a node tells srun of its facts and its plan.
#pragma once

#include "lib/exchange_values.h"
#include "lib/inspect.h"
#include "lib/plan.h"
#include "lib/root.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What a node tells the others: its facts, and the plan that it made alone. `node`: Slurm's name of it. Block,
/// listener and the tasks' numbers are the caller's to add.
NodeReport make_report(const NodeFacts& facts, const Plan& plan, std::string node);

// What a node's plan has to say about evidence: what was to be expected, and why it may not come.

/// The ports that NCCL will use, as "mlx5_1:1": the plan's, or what the user's own NCCL_IB_HCA takes.
std::vector<std::string> expected_ports(const NodeFacts& facts, const Plan& plan);

/// Why RDMA may not have been used, as far as the node knows before the ranks run.
std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan);

/// True with NVIDIA's module for GPUDirect, or that of MLNX_OFED. Without them it is not known: there may be DMA-BUF.
std::optional<bool> gpu_direct_possible(const Root& root);

} // namespace rdma_nccl
