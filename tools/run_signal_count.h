// SPDX-License-Identifier: Apache-2.0
// Signals that come by several ways and are acted on once: from Slurm to this launcher, from Slurm to its ranks
// themselves, and from launchers of other nodes, of which each may have got the same one from scancel.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace rdma_nccl {

class SignalCounts {
public:
    using Time = std::chrono::steady_clock::time_point;

    struct Due {
        int signal = 0;
        unsigned count = 0;         ///< how often this node has got it
        bool ranks_have_it = false; ///< from Slurm itself, which signals all processes of a step
    };

    /// The guard has handed a signal on; or the launcher got it directly, as it does where Slurm signals every process
    /// of the step (SignalChildrenProcesses in cgroup.conf(5)). Both together are one signal.
    void from_guard(int signal, Time now);
    void direct(int signal, Time now);

    /// Those that have waited long enough for their other half.
    std::vector<Due> take_due(Time now);
    [[nodiscard]] std::optional<Time> deadline() const;

    /// Of `count` times that some node has got it: how often it remains to be acted on here. Counts as done then.
    unsigned outstanding(int signal, unsigned count);

private:
    struct Waiting {
        Time due;
        bool guard = false;
        bool direct = false;
    };
    void note(int signal, Time now, bool Waiting::*way);

    std::map<int, Waiting> waiting_;
    std::map<int, unsigned> got_;
    std::map<int, unsigned> acted_;
};

} // namespace rdma_nccl
