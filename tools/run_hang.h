// SPDX-License-Identifier: Apache-2.0
// Whether a job hangs: nothing written, no work on the GPUs and no byte over RDMA for a while.
#pragma once

#include "lib/root.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What moves on this node. RDMA counters and GPUs are looked at by a thread, once in `period`: a driver that hangs
/// holds up the thread, and so counts as nothing that moves, but never the launcher.
class ActivityProbe {
public:
    /// `ports`: as NCCL_IB_HCA and UCX_NET_DEVICES name them ("mlx5_1:1"); `gpus`: UUIDs ("GPU-...") or PCI addresses
    /// of the ranks'. `nvml`: NVIDIA's library, opened by the thread; without it GPUs are not looked at.
    ActivityProbe(const Root& root, std::vector<std::string> ports, std::vector<std::string> gpus,
                  std::chrono::milliseconds period = std::chrono::seconds(1),
                  const std::string& nvml = "libnvidia-ml.so.1");
    ~ActivityProbe(); ///< does not wait for a driver
    ActivityProbe(const ActivityProbe&) = delete;
    ActivityProbe& operator=(const ActivityProbe&) = delete;

    /// Whether anything moved since the last call; `output_bytes`: written by all ranks so far. A NCCL kernel that
    /// waits for a peer keeps a GPU 100 % busy but its memory idle: what counts is the memory's use.
    bool moved(std::uint64_t output_bytes);
    /// What is looked at, for the report: "output, RDMA bytes of mlx5_0:1, memory use of 8 GPUs".
    [[nodiscard]] std::string watched() const;

private:
    struct State;
    std::shared_ptr<State> state_; ///< also the thread's
    std::uint64_t output_bytes_ = 0;
    std::uint64_t changes_ = 0;
};

/// Decides from what all nodes tell. A job hangs when no node has seen anything move for the whole of `patience`; one
/// that does not tell may be anything, and is the business of who watches connections.
class HangJudge {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// `interval`: between two looks of a node.
    HangJudge(std::size_t nodes, std::chrono::milliseconds patience, std::chrono::milliseconds interval, Time now)
        : patience_(patience), interval_(interval), last_call_(now), nodes_(nodes, Node{now, now}) {}

    /// Node `node` has looked. Returns true when the job hangs, once, until something moves again. A gap between calls
    /// that is much longer than the interval means that this process was stopped, as the ranks may have been: the time
    /// counts from anew.
    bool on_look(std::size_t node, bool moved, Time now);

    /// How long nothing has moved anywhere.
    [[nodiscard]] std::chrono::milliseconds quiet(Time now) const;

private:
    struct Node {
        Time moved;
        Time looked;
    };
    [[nodiscard]] bool all_looked(Time now) const;

    std::chrono::milliseconds patience_;
    std::chrono::milliseconds interval_;
    Time last_call_;
    std::vector<Node> nodes_;
    bool told_ = false;
};

} // namespace rdma_nccl
