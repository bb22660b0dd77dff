// SPDX-License-Identifier: Apache-2.0
// The process beside the tasks that watches what a step does with this node's network. Counters and netlink ask
// drivers, which may hang, so slurmstepd does not read them itself.
#pragma once

#include "lib/base/forked_worker.h"
#include "lib/base/unique_fd.h"
#include "lib/exchange/client.h"

#include <chrono>
#include <optional>
#include <sys/types.h>

namespace rdma_nccl {

struct NodeState;

/// The step's user.
struct StepUser {
    uid_t uid = 0;
    gid_t gid = 0;
};

/// Gives up root for good in a child: neither the user's files (logs) nor drivers should be read as root. Does nothing
/// if the process is not root. Returns false on failure.
bool become(const StepUser& user);

class EvidenceProcess {
public:
    /// Call as root in slurmstepd, before the tasks run. Returns once the counters have been read, or after a quarter
    /// of a second. The process runs as the user and sends its results to srun.
    static std::optional<EvidenceProcess> start(const NodeState& state, ExchangeClient& srun);

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
