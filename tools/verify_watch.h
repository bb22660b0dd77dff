// SPDX-License-Identifier: Apache-2.0
// What both ways of watching a node share: its plan, the watch, and the evidence in the end.
#pragma once

#include "lib/evidence.h"
#include "lib/root.h"
#include "lib/step_watch.h"
#include "tools/node_plan.h"

#include <string>

namespace rdma_nccl {

struct WatchedNode {
    Root root;
    NodePlan node;

    /// As the settings say, for a program with `environment`; fails when its root cannot be read.
    static Result<WatchedNode> inspect(const SettingsOptions& options,
                                       const Environment& environment = Environment::from(environ));

    /// Takes the first reading. `this` must outlive it.
    [[nodiscard]] StepWatch watch(StepProcesses processes) const;

    /// After the last look: waits for counters that lag behind where that could change the verdict.
    [[nodiscard]] NodeEvidence evidence(StepWatch& watch, const std::string& log_directory) const;
};

/// Until the next look is due, at most until `end`; true when `fd` has something to read before.
bool wait_for_look(const StepWatch& watch, int fd, StepWatch::Clock::time_point end);

} // namespace rdma_nccl
