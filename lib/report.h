// SPDX-License-Identifier: Apache-2.0
// A plan in words.
#pragma once

#include "lib/plan.h"

#include <string>
#include <vector>

namespace rdma_nccl {

/// The ports in use: "8 HCA ports (mlx5_1:1..mlx5_8:1), GID index 3", "no HCA".
std::string fabric_summary(const FabricChoice& fabric);

/// The normal output of a step: layout, ranks, head, HCAs and GID index in one line.
std::string plan_summary(const Plan& plan, const Step& step);

/// The whole plan, a line each, for verbose=2 and 3: every decision with where it came from; `task_variables` may be
/// empty.
std::vector<std::string> plan_lines(const Plan& plan, const Step& step, const std::vector<Variable>& task_variables);

} // namespace rdma_nccl
