// SPDX-License-Identifier: Apache-2.0
// The output of `rdma-nccl run --dry-run`: everything that would be started on this node, as a pure function of the
// plan.
#pragma once

#include "lib/sys/environment.h"
#include "tools/run/options/command.h"
#include "tools/run/placement.h"
#include "tools/run/world/worker_environment.h"
#include "tools/run/world/world.h"

#include <string>
#include <vector>

namespace rdma_nccl::run {

struct DryRunFacts {
    const WorldPlan& plan;
    const std::vector<Command>& commands; ///< by local rank
    const WorkerSettings& worker;
    const Environment& environment;       ///< of the launcher
    std::vector<RankDeviceNames> devices; ///< by local rank; may be shorter
    std::string host;
};

/// Returns a table of the ranks (CPUs and memory node only if they are bound), then the variables that they get in
/// addition to the launcher's: first those that all ranks have, then those of each rank. Commands are quoted for a
/// shell.
std::string dry_run_text(const DryRunFacts& facts);

/// Returns the same as JSON, {"schema": 1, ...}.
std::string dry_run_json(const DryRunFacts& facts);

/// Returns the file and the arguments, quoted for a shell.
std::string command_text(const Command& command);

} // namespace rdma_nccl::run
