// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl run --dry-run` prints: all that would be started on this node, as a pure function of the plan.
#pragma once

#include "lib/environment.h"
#include "tools/run_places.h"
#include "tools/run_program.h"
#include "tools/run_worker.h"
#include "tools/run_world.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct DryRunFacts {
    const WorldPlan& plan;
    const RankCommands& commands;
    const WorkerSettings& worker;
    const Environment& environment;   ///< of the launcher
    std::vector<NearDevices> devices; ///< by local rank; may be shorter
    std::string host;
};

/// A table of the ranks (CPUs and memory node only where they are bound), then the variables that they get beyond the
/// launcher's: first those that all have, then by rank. Commands are quoted for a shell.
std::string dry_run_text(const DryRunFacts& facts);

/// The same, {"schema": 1, ...}.
std::string dry_run_json(const DryRunFacts& facts);

/// File and arguments, quoted for a shell.
std::string command_text(const Command& command);

} // namespace rdma_nccl
