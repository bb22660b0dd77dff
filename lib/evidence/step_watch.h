// SPDX-License-Identifier: Apache-2.0
// Watches a node's network while a step runs: reads its byte counters and queue pairs repeatedly.
#pragma once

#include "lib/evidence/evidence.h"
#include "lib/slurm/step_processes.h"
#include "lib/sys/sysroot.h"
#include "lib/traffic/traffic.h"

#include <chrono>
#include <optional>
#include <set>
#include <string>

namespace rdma_nccl {

class StepWatch {
public:
    using Clock = std::chrono::steady_clock;

    /// Takes the first reading. Reports no queue pairs unless `root` and `processes.ancestor` are of this machine.
    StepWatch(const SysRoot& root, TrafficSources sources, StepProcesses processes);

    /// Reads the bytes and looks for other jobs on the node. Reads the queue pairs too, unless the step `has_ended`.
    void sample(bool has_ended = false);

    /// Returns the time of the next look: soon at first, because short steps end early, later every five seconds.
    [[nodiscard]] Clock::time_point next_sample() const { return next_look_; }

    /// Returns what was seen so far. The caller adds node, gpus, log and causes.
    [[nodiscard]] NodeEvidence evidence() const;

    /// Returns true if port counters that lag behind could still change the verdict: then look again after settle().
    [[nodiscard]] bool should_wait_for_counters() const;
    [[nodiscard]] std::chrono::milliseconds counter_latency() const { return meter_.sources().counter_latency(); }

private:
    void look_at_queue_pairs();
    [[nodiscard]] bool processes_are_hidden() const;

    const SysRoot& root_;
    TrafficMeter meter_;
    StepProcesses processes_;
    Clock::time_point start_, next_look_;
    QpEvidence qps_;
    std::set<std::string> own_ports_, others_;
    bool unseen_ = false;      ///< there were queue pairs without a process
    bool others_seen_ = false; ///< another job's slurmstepd was seen
};

} // namespace rdma_nccl
