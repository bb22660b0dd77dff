// SPDX-License-Identifier: Apache-2.0
// The plugin in slurmstepd: user_init makes the node's plan as the user, task_init gives each task its variables.
// Nothing here fails a step, unless the user asked for that with strict.
#pragma once

#include "lib/inspect.h"
#include "lib/plan.h"
#include "plugin/configuration.h"
#include "plugin/host.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What user_init leaves for the tasks, which slurmstepd forks afterwards.
struct NodeState {
    Settings settings;
    NodeFacts facts;
    Plan plan;
    bool has_rank_zero = false;              ///< as far as known before the tasks start
    std::vector<std::string> warnings;       ///< of settings and plan
    std::optional<std::string> strict_fault; ///< why task_init must fail the step
};

/// user_init: nullopt when there is nothing to do (not asked for, a special step, another runtime's daemons).
std::optional<NodeState> node_start(const Configuration& configuration, Host& host);

/// task_init: 0, or -1 when the step must not run (strict).
int node_start_task(const NodeState& state, Host& host);

} // namespace rdma_nccl
