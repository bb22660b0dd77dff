// SPDX-License-Identifier: Apache-2.0
// The process beside the tasks that watches what a step does with this node's network. Counters and netlink ask
// drivers, which may hang, so slurmstepd does not read them itself.
#pragma once

#include "lib/base/forked_worker.h"
#include "lib/base/unique_fd.h"
#include "lib/exchange/client.h"
#include "lib/plan/inspect.h"
#include "lib/plan/plan.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// Gives up root for good in a child: neither the user's files (logs) nor drivers should be read as root. Does nothing
/// if the process is not root. Returns false on failure.
bool become(uid_t uid, gid_t gid);

/// The input of the process.
struct EvidenceTask {
    const NodeFacts& facts;
    const Plan& plan;
    std::string root;
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    unsigned tasks = 1;        ///< on this node
    std::string log_directory; ///< for NCCL's logs; empty: there are none
    uid_t uid = 0;             ///< the step's user
    gid_t gid = 0;
    std::vector<std::uint16_t> ports; ///< rank 0's ports, on its node: nobody else should listen there
};

class EvidenceProcess {
public:
    /// Call as root in slurmstepd, before the tasks run. Returns once the counters have been read, or after a quarter
    /// of a second. The process runs as the user and sends its results to srun.
    static std::optional<EvidenceProcess> start(const EvidenceTask& task, ExchangeClient& srun);

    /// Call when the last task has ended: the process reports to srun and ends. Returns when it has ended, usually
    /// within milliseconds. It belongs to the step's cgroup, so it must be gone before slurmstepd kills what is left in
    /// that cgroup and waits for it (proctrack_cgroup.c). If it takes longer than its drivers may, it is killed.
    void end_step();

private:
    EvidenceProcess(Child child, UniqueFd control) : child_(std::move(child)), control_(std::move(control)) {}

    Child child_;
    UniqueFd control_; ///< closing it ends the process without a report
};

/// The longest that end_step() may take: the slowest driver's counters are two seconds late (traffic_sources.cpp).
inline constexpr std::chrono::milliseconds evidence_timeout(1000);
inline constexpr std::chrono::milliseconds settling_timeout(2500);

} // namespace rdma_nccl
