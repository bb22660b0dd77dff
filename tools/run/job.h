// SPDX-License-Identifier: Apache-2.0
// Runs one node's part of a job, from the first rank to the last process and through all restarts.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/signal_fd.h"
#include "lib/sys/sysroot.h"
#include "tools/run/control/control.h"
#include "tools/run/options/command.h"
#include "tools/run/options/options.h"
#include "tools/run/placement.h"
#include "tools/run/process/process_set.h"
#include "tools/run/world/worker_environment.h"
#include "tools/run/world/world.h"

#include <functional>
#include <string>
#include <vector>

namespace rdma_nccl::run {

struct Job {
    const WorldPlan& plan;
    const std::vector<Command>& commands; ///< by local rank
    const WorkerSettings& worker;         ///< without values that differ between attempts
    const Environment& environment;       ///< of the launcher
    const Options& options;
    const SysRoot& root;
    std::string node;                                           ///< for messages
    std::function<std::vector<RankDeviceNames>()> find_devices; ///< by local rank; called at most once, when needed
    std::string error_directory; ///< for error.json if there is no log directory; empty: none
    std::string log_directory;   ///< empty: none
};

/// Starts the ranks and waits until they and all processes that they left behind have ended, here and on all nodes that
/// `control` connects. The first failure ends the others. Returns the exit code of the launcher. `guard_fd`: the job is
/// killed when its other end is closed.
int run_job(const Job& job, Control& control, const BlockedSignals& signals, int guard_fd);

} // namespace rdma_nccl::run
