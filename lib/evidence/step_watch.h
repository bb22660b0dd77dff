// SPDX-License-Identifier: Apache-2.0
// Watches a node's network while a step runs, by its byte counters and queue pairs, and collects what the node reports
// at the end: the same for the plugin and for `rdma-nccl verify`.
#pragma once

#include "lib/evidence/verdict.h"
#include "lib/plan/plan.h"
#include "lib/slurm/step_processes.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/gpu_links.h"
#include "lib/traffic/traffic.h"

#include <chrono>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What counts how often a port goes down. Absent: NCCL was not told to use the port, or there is no such counter.
struct DownCounts {
    Count link_downed;     ///< the port's
    Count carrier_changes; ///< of the interface of the GID that NCCL takes there
};

class StepWatch {
public:
    using Clock = std::chrono::steady_clock;

    /// Takes the first sample. Reports no queue pairs unless `root` and `processes.ancestor` are of this machine.
    /// `gpus`: this machine's GPUs if NCCL may connect nodes over NVLink, else none. They must outlive the watch.
    StepWatch(const SysRoot& root, TrafficSources sources, StepProcesses processes, std::span<const Gpu> gpus = {});

    /// Reads the bytes and looks for other jobs on the node. While the step runs, also reads the queue pairs; where
    /// RDMA falls short and there is an IMEX channel, starts once to ask NVML. The first call with `has_ended` reads
    /// how often ports went down, and whether the GIDs that NCCL took are still there. Each call takes NVML's answer if
    /// it has come.
    void sample(bool has_ended = false);

    /// Returns the time of the next sample: soon at first, because short steps end early, later every five seconds.
    [[nodiscard]] Clock::time_point next_sample() const { return next_sample_; }

    /// Returns the environment of the step's first task here with what its processes have changed in NCCL's variables,
    /// as a container's image or a script does; nullopt unless it was looked up, while bytes went over sockets.
    [[nodiscard]] const std::optional<Environment>& task_environment() const { return task_environment_; }

    /// Returns whether NVLink may connect the GPUs with those of other nodes: there is a channel, and NVML has not said
    /// by the last sample that none is in a clique.
    [[nodiscard]] bool may_use_nvlink() const { return may_use_nvlink_; }

    /// Returns what was seen so far. The caller adds node, gpus, log and causes.
    [[nodiscard]] NodeEvidence evidence() const;

    /// Returns true if port counters that lag behind could still change the verdict: then sample again after
    /// counter_latency().
    [[nodiscard]] bool should_wait_for_counters() const;
    [[nodiscard]] std::chrono::milliseconds counter_latency() const { return meter_.sources().counter_latency(); }

    /// Call after the last sample. If it should, waits until the counters show all up to the step's end, or for two
    /// seconds after it, and samples again.
    void settle(Clock::time_point end);

private:
    void sample_queue_pairs();
    [[nodiscard]] bool lacks_rdma() const;
    void look_up_environment();
    void ask_nvml();

    const SysRoot& root_;
    TrafficMeter meter_;
    std::vector<DownCounts> downs_before_, downs_after_; ///< by port; nothing before the end in the latter
    std::vector<std::optional<GidChange>> gid_changes_;  ///< by port; nothing before the end
    StepProcesses processes_;
    Clock::time_point start_, next_sample_;
    QpEvidence qps_;
    std::set<std::string> own_ports_, others_;
    std::optional<Environment> task_environment_;
    std::span<const Gpu> gpus_;                   ///< to ask NVML about; empty once it was asked
    std::optional<ChildValue<GpuFabrics>> asked_; ///< NVML, which has not answered yet
    bool may_use_nvlink_;
    bool unseen_ = false;      ///< there were queue pairs without a process
    bool others_seen_ = false; ///< another job's slurmstepd was seen
    bool has_settled_ = false; ///< it has waited for late counters
};

/// A step on this node. What it refers to must outlive its watch.
struct WatchedStep {
    const SysRoot& root;
    const NodeFacts& facts;
    const Plan& plan;
    unsigned tasks = 1;                  ///< of the step, on this node
    std::string log_directory = {};      ///< of NCCL's logs; empty: there are none
    std::string profiles_directory = {}; ///< of the counters of NCCL's profiler plugins; empty: there are none
};

/// Takes the first sample of the ports that NCCL is expected to use. Asks NVML only about this machine's NVIDIA GPUs,
/// unless NCCL was told not to connect nodes over NVLink.
StepWatch watch_step(const WatchedStep& step, StepProcesses processes);

/// Call after the last sample. Reads what NCCL has logged, until `log_deadline`; then settles the watch. `end`: of the
/// step. `container_faults`: what tasks found in their container; causes, too.
NodeEvidence collect_evidence(const WatchedStep& step, StepWatch& watch, StepWatch::Clock::time_point end,
                              std::vector<std::string> container_faults = {},
                              StepWatch::Clock::time_point log_deadline = StepWatch::Clock::time_point::max());

/// Why RDMA may not have been used, as far as the node knows before the ranks run.
std::vector<std::string> causes_of(const NodeFacts& facts, const Plan& plan);

} // namespace rdma_nccl
