// SPDX-License-Identifier: Apache-2.0
// One node's part of a job from its first rank to its last process, through all restarts.
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
    const WorkerSettings& worker;   ///< without what differs between attempts
    const Environment& environment; ///< of the launcher
    const RunOptions& options;
    const Root& root;
    std::string node;                                       ///< for messages
    std::function<std::vector<NearDevices>()> find_devices; ///< by local rank; asked at most once, when needed
    std::string error_directory; ///< for error.json where there is no log directory; empty: none
    std::string log_directory;   ///< empty: none
};

/// Starts the ranks and waits until they and all that they left behind have ended, here and on all nodes that `control`
/// knows; the first failure ends the others. Returns the code for the launcher to exit with. `guard_fd`: the job is
/// killed when the other end is closed.
int run_job(const Job& job, Control& control, const BlockedSignals& signals, int guard_fd);

/// What is known of a rank's end at once.
RankFailure failure_of(const Job& job, const RankExit& rank_exit, unsigned attempt);

/// The line about the first failure on a node: "rank 3 (local 3) on n01, pid 1234: killed by signal 9 (Killed); ending
/// the other 7 ranks".
std::string describe_failure(const RankFailure& failure, std::size_t others);

} // namespace rdma_nccl
