// SPDX-License-Identifier: Apache-2.0
// How a node watches a step and what it reports at the end: the same for the plugin and for `rdma-nccl verify`.
#pragma once

#include "lib/evidence/evidence.h"
#include "lib/evidence/step_watch.h"
#include "lib/plan/plan.h"

#include <functional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A step on this node. What it refers to must outlive its watch.
struct WatchedStep {
    const SysRoot& root;
    const NodeFacts& facts;
    const Plan& plan;
    unsigned tasks = 1;             ///< of the step, on this node
    std::string log_directory = {}; ///< of NCCL's logs; empty: there are none
};

/// Takes the first sample of the ports that NCCL is expected to use.
StepWatch watch_step(const WatchedStep& step, StepProcesses processes);

/// After the last sample. Where counters that lag behind could change the verdict, it calls `before_waiting`, waits for
/// them and takes another sample.
NodeEvidence collect_evidence(const WatchedStep& step, StepWatch& watch,
                              const std::function<void()>& before_waiting = {});

/// Why RDMA may not have been used, as far as the node knows before the ranks run.
std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan);

} // namespace rdma_nccl
