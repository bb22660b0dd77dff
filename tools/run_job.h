// SPDX-License-Identifier: Apache-2.0
// One node's part of a job from its first rank to its last process.
#pragma once

#include "lib/environment.h"
#include "tools/run_processes.h"
#include "tools/run_program.h"
#include "tools/run_signals.h"
#include "tools/run_worker.h"
#include "tools/run_world.h"

#include <chrono>
#include <string>

namespace rdma_nccl {

struct Job {
    const WorldPlan& plan;
    const RankCommands& commands;
    const WorkerSettings& worker;
    const Environment& environment; ///< of the launcher
    std::chrono::milliseconds grace{};
    std::string node; ///< for messages
};

/// Starts the ranks and waits until they and all that they left behind have ended; the first failure ends the others.
/// Returns the code for the launcher to exit with. `guard_fd`: the job is killed when the other end is closed.
int run_job(const Job& job, const BlockedSignals& signals, int guard_fd);

/// The line about the first failure: "rank 3 (local 3) on n01, pid 1234: killed by signal 9 (Killed); ending the other
/// 7 ranks".
std::string describe_failure(const Job& job, const RankExit& rank_exit, std::size_t others);

} // namespace rdma_nccl
