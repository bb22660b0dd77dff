// SPDX-License-Identifier: Apache-2.0
// A node's report to srun: its facts and its plan.
#pragma once

#include "lib/exchange_values.h"
#include "lib/inspect.h"
#include "lib/plan.h"
#include "lib/root.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Makes a node's report from its facts and the plan that it made on its own. `node`: its name in Slurm. The caller
/// adds the job, the tasks' numbers, the block and the listener.
NodeReport make_report(const NodeFacts& facts, const Plan& plan, std::string node);

// What a node's plan tells about evidence: what to expect, and why it may be missing.

/// Returns the ports that NCCL will use, as "mlx5_1:1": the plan's, or those that the user's own NCCL_IB_HCA selects.
std::vector<std::string> expected_ports(const NodeFacts& facts, const Plan& plan);

/// Returns why RDMA may not have been used, as far as the node knows before the ranks run.
std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan);

/// Returns true when NVIDIA's kernel module for GPUDirect, or that of MLNX_OFED, is loaded; else nullopt, as the kernel
/// may support DMA-BUF instead.
std::optional<bool> gpu_direct_possible(const Root& root);

} // namespace rdma_nccl
