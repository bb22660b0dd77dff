// SPDX-License-Identifier: Apache-2.0
// A node's report to srun: its facts and its plan.
#pragma once

#include "lib/exchange/messages.h"
#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"
#include "lib/sys/sysroot.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Makes a node's report from its facts and the plan that it made on its own. `node`: its name in Slurm. The caller
/// adds the job, the tasks' numbers, the block and the listener.
NodeReport make_report(const NodeFacts& facts, const Plan& plan, std::string node);

} // namespace rdma_nccl
