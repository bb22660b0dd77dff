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

/// Returns a step's name with its job's own number, which its processes have: "13.0" for "10_3.0", as squeue shows a
/// step of task 3 of array 10. Other names stay. Fails as ask_slurm() does, and if squeue knows no such job.
Result<std::string> name_by_number(const std::string& step);

/// Returns srun's options for a job, by what squeue's format "%A %i" says of it. Of a heterogeneous job srun knows the
/// leader and the place of a component: "13 12+1".
std::string job_options(std::uint32_t job, std::string_view listed);

/// What print_report() printed on nodes of a job.
struct NodeReports {
    std::vector<std::string> texts; ///< in no particular order
    bool in_time = true;            ///< all nodes had ended within the limit
    int signal = 0;                 ///< that interrupted it; 0: none

    /// Returns why a node did not report within `limit`.
    [[nodiscard]] std::string why_silent(std::chrono::milliseconds limit) const;
};

/// Runs this program with `arguments` on each of these nodes of a job. After `limit` the programs are ended. SIGINT,
/// SIGTERM, SIGHUP or SIGQUIT to this process becomes a SIGINT to each of them, after which they have 10 s to report; a
/// second signal ends them. Fails if srun cannot be started, or squeue does not say how srun calls the job.
Result<NodeReports> ask_nodes(std::uint32_t job, const std::vector<std::string>& nodes,
                              const std::vector<std::string>& arguments, std::chrono::milliseconds limit);

/// Prints a report for ask_nodes(): a text without line ends.
void print_report(std::string_view text);

} // namespace rdma_nccl
