// SPDX-License-Identifier: Apache-2.0
// Common parts of the two ways to watch a node: its plan, the watch, and the evidence at the end.
#pragma once

#include "lib/evidence/evidence.h"
#include "lib/evidence/step_watch.h"
#include "lib/sys/sysroot.h"
#include "tools/node/node_plan.h"

#include <string>

namespace rdma_nccl {

struct WatchedNode {
    SysRoot root;
    NodePlan node;

    /// As the settings say, for a program with `environment`; fails when its root cannot be read.
    static Result<WatchedNode> inspect(const SettingsOptions& options,
                                       const Environment& environment = Environment::from(environ));

    /// Takes the first reading. `this` must outlive the watch.
    [[nodiscard]] StepWatch watch(StepProcesses processes) const;

    /// Returns the evidence after the last look. If delayed counters could change the verdict, waits for them.
    [[nodiscard]] NodeEvidence evidence(StepWatch& watch, const std::string& log_directory) const;
};

/// Waits until the next look is due, or until `end`. Returns true if `fd` becomes readable before.
bool wait_for_sample(const StepWatch& watch, int fd, StepWatch::Clock::time_point end);

} // namespace rdma_nccl
