// SPDX-License-Identifier: Apache-2.0
// Runs one node's part of a job, from the first rank to the last process and through all restarts, or prints what it
// would start.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/signal_fd.h"
#include "lib/sys/sysroot.h"
#include "tools/run/control/control.h"
#include "tools/run/failure/report.h"
#include "tools/run/options/command.h"
#include "tools/run/options/options.h"
#include "tools/run/placement.h"
#include "tools/run/process/process_set.h"
#include "tools/run/world/world.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace rdma_nccl::run {

/// What was found out before the ranks start.
struct Job {
    const WorldPlan& plan;
    std::vector<Command> commands;  ///< by local rank
    WorkerSettings worker;          ///< without values that differ between attempts
    const Environment& environment; ///< of the launcher
    const Options& options;
    const SysRoot& root;
    std::string node;                                           ///< for messages
    std::function<std::vector<RankDeviceNames>()> find_devices; ///< by local rank; called at most once, when needed
    std::string error_directory{}; ///< for error.json if there is no log directory; empty: none
    std::string log_directory{};   ///< empty: none
};

/// Returns what is known about a rank's failure right after its exit.
RankFailure failure_of(const Job& job, const RankExit& rank_exit, unsigned attempt);

/// Returns the message about the first failure on a node: "rank 3 (local 3) on n01, pid 1234: killed by signal 9
/// (Killed); ending the other 7 ranks".
std::string describe_failure(const RankFailure& failure, std::size_t others);

/// Starts the ranks and waits until they and all processes that they left behind have ended, here and on all nodes that
/// `control` connects. The first failure ends the others. Returns the exit code of the launcher. `guard_fd`: the job is
/// killed when its other end is closed.
int run_job(const Job& job, Control& control, const BlockedSignals& signals, int guard_fd);

// The output of --dry-run, as a pure function of the job.

/// Returns a table of the ranks (CPUs and memory node only if they are bound), then the variables that they get in
/// addition to the launcher's: first those that all ranks have, then those of each rank. Commands are quoted for a
/// shell.
std::string dry_run_text(const Job& job);

/// Returns the same as JSON, {"schema": 1, ...}.
std::string dry_run_json(const Job& job);

/// Returns the file and the arguments, quoted for a shell.
std::string command_text(const Command& command);

} // namespace rdma_nccl::run
