// SPDX-License-Identifier: Apache-2.0
// What a step does with a node's network while it runs: its bytes and its queue pairs, looked at again and again.
#pragma once

#include "lib/evidence.h"
#include "lib/root.h"
#include "lib/step_processes.h"
#include "lib/traffic.h"

#include <chrono>
#include <optional>
#include <set>
#include <string>

namespace rdma_nccl {

class StepWatch {
public:
    using Clock = std::chrono::steady_clock;

    /// `root` and `processes.ancestor` are of this machine, or nothing is said of queue pairs. Takes the first reading.
    StepWatch(const Root& root, TrafficSources sources, StepProcesses processes);

    /// Reads the bytes, and looks for other jobs on the node; at the queue pairs, too, unless the step `has_ended`.
    void look(bool has_ended = false);

    /// When to look next: soon at first, as short steps end before long, then each five seconds.
    [[nodiscard]] Clock::time_point next_look() const { return next_look_; }

    /// What was seen so far; node, gpus, log and causes are the caller's to add.
    [[nodiscard]] NodeEvidence evidence() const;

    /// Whether the port counters that lag behind could still change the verdict: then look again after settle().
    [[nodiscard]] bool should_settle() const;
    [[nodiscard]] std::chrono::milliseconds settle() const { return meter_.sources().settle(); }

private:
    void look_at_queue_pairs();
    [[nodiscard]] bool processes_are_hidden() const;

    const Root& root_;
    TrafficMeter meter_;
    StepProcesses processes_;
    Clock::time_point start_, next_look_;
    QpEvidence qps_;
    std::set<std::string> own_ports_, others_;
    bool unseen_ = false;      ///< queue pairs without a process
    bool others_seen_ = false; ///< another job's slurmstepd
};

} // namespace rdma_nccl
