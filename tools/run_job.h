// SPDX-License-Identifier: Apache-2.0
// Runs one node's part of a job, from the first rank to the last process and through all restarts.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"
#include "tools/run_control.h"
#include "tools/run_options.h"
#include "tools/run_places.h"
#include "tools/run_processes.h"
#include "tools/run_program.h"
#include "tools/run_signals.h"
#include "tools/run_worker.h"
#include "tools/run_world.h"

#include <functional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct Job {
    const WorldPlan& plan;
    const RankCommands& commands;
    const WorkerSettings& worker;   ///< without values that differ between attempts
    const Environment& environment; ///< of the launcher
    const RunOptions& options;
    const Root& root;
    std::string node;                                       ///< for messages
    std::function<std::vector<NearDevices>()> find_devices; ///< by local rank; called at most once, when needed
    std::string error_directory; ///< for error.json if there is no log directory; empty: none
    std::string log_directory;   ///< empty: none
};

/// Starts the ranks and waits until they and all processes that they left behind have ended, here and on all nodes that
/// `control` connects. The first failure ends the others. Returns the exit code of the launcher. `guard_fd`: the job is
/// killed when its other end is closed.
int run_job(const Job& job, Control& control, const BlockedSignals& signals, int guard_fd);

/// Returns what is known about a rank's failure right after its exit.
RankFailure failure_of(const Job& job, const RankExit& rank_exit, unsigned attempt);

/// Returns the message about the first failure on a node: "rank 3 (local 3) on n01, pid 1234: killed by signal 9
/// (Killed); ending the other 7 ranks".
std::string describe_failure(const RankFailure& failure, std::size_t others);

} // namespace rdma_nccl
