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

} // namespace rdma_nccl
