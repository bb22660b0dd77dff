// SPDX-License-Identifier: Apache-2.0
// Runs this program on the nodes of a job, beside its steps (srun --overlap), and collects what it reports there.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns "NAME=value" entries for a command of Slurm that is not to act as a part of a job: of Slurm's own variables
/// only those stay that say how to reach the cluster, as the others would be options of srun. The plugin ignores what
/// such a command starts.
std::vector<std::string> environment_outside_of_job(const Environment& environment);

/// Returns what a command of Slurm prints. Fails if it cannot be started, does not end within a minute, or is
/// interrupted.
Result<std::string> ask_slurm(const std::vector<std::string>& command);

/// Returns srun's options for a job. Of a heterogeneous job srun knows the leader and the place of a component, which
/// squeue says: "12+1" (%i) is job 13 (%A). Fails as ask_slurm() does.
Result<std::string> job_options(std::uint32_t job);

/// What print_report() printed on nodes of a job.
struct NodeReports {
    std::vector<std::string> texts; ///< in no particular order
    bool in_time = true;            ///< all nodes had ended within the limit
    int signal = 0;                 ///< that interrupted it; 0: none
};

/// Runs this program with `arguments` on each of these nodes of a job. After `limit` the programs are ended. SIGINT,
/// SIGTERM, SIGHUP or SIGQUIT to this process becomes a SIGINT to each of them, after which they have 10 s to report; a
/// second signal ends them. Fails if srun cannot be started.
Result<NodeReports> ask_nodes(const std::string& job_options, const std::vector<std::string>& nodes,
                              const std::vector<std::string>& arguments, std::chrono::milliseconds limit);

/// Prints a report for ask_nodes(): a text without line ends.
void print_report(std::string_view text);

} // namespace rdma_nccl
