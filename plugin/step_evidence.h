// SPDX-License-Identifier: Apache-2.0
// The process that watches what a step does with this node's network, beside the tasks: counters and netlink ask
// drivers, which may hang, so slurmstepd itself does not.
#pragma once

#include "lib/child.h"
#include "lib/exchange_client.h"
#include "lib/inspect.h"
#include "lib/plan.h"
#include "lib/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// As root in a child, for good: what is read of the user's (logs), and what a driver is asked, is not for root.
bool become(uid_t uid, gid_t gid);

/// What it has to know.
struct EvidenceTask {
    const NodeFacts& facts;
    const Plan& plan;
    std::string root;
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    unsigned tasks = 1;        ///< of this node
    std::string log_directory; ///< of NCCL's logs; empty: there are none
    uid_t uid = 0;             ///< whose the step is
    gid_t gid = 0;
    std::vector<std::uint16_t> ports; ///< of rank 0, on its node: nobody else is to listen there
};

class EvidenceProcess {
public:
    /// As root in slurmstepd, before the tasks run; returns when the counters have been read, or soon. It goes on as
    /// the user. What it has seen goes to srun.
    static std::optional<EvidenceProcess> start(const EvidenceTask& task, ExchangeClient& srun);

    /// The last task has ended: it tells srun, and ends. Back when it has, within milliseconds as a rule: it must be
    /// gone before slurmstepd kills and waits for what is left of the step's cgroup, to which it belongs
    /// (proctrack_cgroup.c). It is killed when it takes longer than its drivers may.
    void end_step();

private:
    EvidenceProcess(Child child, UniqueFd control) : child_(std::move(child)), control_(std::move(control)) {}

    Child child_;
    UniqueFd control_; ///< closed: it ends without a word
};

/// The most that end_step() may take: the slowest driver's counters are two seconds late (traffic_sources.cpp).
inline constexpr std::chrono::milliseconds patience_with_evidence(1000);
inline constexpr std::chrono::milliseconds patience_with_settling(2500);

} // namespace rdma_nccl
