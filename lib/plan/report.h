// SPDX-License-Identifier: Apache-2.0
// Describes a plan in words.
#pragma once

#include "lib/plan/plan.h"

#include <string>
#include <vector>

namespace rdma_nccl {

/// Returns the ports in use: "8 HCA ports (mlx5_1:1..mlx5_8:1), GID index 3", "no HCA".
std::string fabric_summary(const FabricChoice& fabric);

/// Returns the normal output of a step: layout, ranks, head, HCAs and GID index on one line.
std::string plan_summary(const Plan& plan, const Step& step);

/// Returns the whole plan for verbose=2 and 3: one line for each decision, with its source. `task_variables` may be
/// empty.
std::vector<std::string> plan_lines(const Plan& plan, const Step& step, const std::vector<Variable>& task_variables);

} // namespace rdma_nccl
