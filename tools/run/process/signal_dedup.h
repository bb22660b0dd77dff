// SPDX-License-Identifier: Apache-2.0
// Counts signals that arrive in several ways, so that each is handled once. They come from the guard to this launcher;
// to this launcher directly, and perhaps to its ranks; and from launchers of other nodes, each of which may have
// received the same signal from scancel.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace rdma_nccl::run {

class SignalCounts {
public:
    using Time = std::chrono::steady_clock::time_point;

    struct Due {
        int signal = 0;
        unsigned count = 0;         ///< how often this node has received it
        bool ranks_have_it = false; ///< Slurm has sent it to the ranks
        bool here = true;           ///< this node received it; false: other nodes did
    };

    /// The guard has passed a signal on.
    void from_guard(int signal, Time now);

    /// The launcher received a signal directly. `by_slurm`: from slurmstepd, which signals every process of the step
    /// (SignalChildrenProcesses in cgroup.conf(5)), including this launcher and its ranks. The guard's copy usually
    /// follows; `counts_alone`: handle the signal even if it does not.
    void direct(int signal, Time now, bool by_slurm, bool counts_alone);

    /// A node has received the signal `count` times. Waits for this node's own copy of the last one, which its ranks
    /// may also have received.
    void from_node(int signal, unsigned count, Time now);

    /// Returns the signals that are complete or have waited long enough for their other copy.
    std::vector<Due> take_due(Time now);
    /// Returns the time of the next signal from take_due(); nullopt if none is waiting.
    [[nodiscard]] std::optional<Time> deadline() const;

    /// Returns how many of `count` signals have not been handled here, and counts them as handled.
    unsigned outstanding(int signal, unsigned count);

private:
    struct Waiting {
        Time due;
        bool guard = false;
        bool direct = false;
        bool by_slurm = false;
        bool counts = false;
    };

    std::map<int, Waiting> waiting_;
    struct Elsewhere {
        Time due;
        unsigned count = 0;
    };
    std::map<int, Time> guard_owes_; ///< when a signal was handled before the guard's copy arrived
    std::map<int, Elsewhere> elsewhere_;
    std::map<int, unsigned> got_;
    std::map<int, unsigned> acted_;
};

} // namespace rdma_nccl::run
