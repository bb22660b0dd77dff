// SPDX-License-Identifier: Apache-2.0
// Signals that come by several ways and are acted on once: by the guard to this launcher; to this launcher directly,
// and perhaps to its ranks; and from launchers of other nodes, of which each may have got the same one from scancel.
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
        bool ranks_have_it = false; ///< from Slurm itself
        bool here = true;           ///< this node got it; else others have
    };

    /// The guard has handed a signal on.
    void from_guard(int signal, Time now);

    /// The launcher got it directly. `by_slurm`: from slurmstepd, which then signals every process of the step
    /// (SignalChildrenProcesses in cgroup.conf(5)), this launcher and its ranks among them. The guard's copy of it
    /// comes too; `counts_alone`: act on it also if that does not come.
    void direct(int signal, Time now, bool by_slurm, bool counts_alone);

    /// Some node has got it `count` times. Waits for this node's own copy of the last, which ranks may have got too.
    void from_node(int signal, unsigned count, Time now);

    /// Those that have waited long enough for their other half.
    std::vector<Due> take_due(Time now);
    /// Of what take_due() will give; nullopt: nothing waits.
    [[nodiscard]] std::optional<Time> deadline() const;

    /// Of `count` times that some node has got it: how often it remains to be acted on here. Counts as done then.
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
    std::map<int, Time> guard_owes_; ///< acted on then, while the guard's copy has not come yet
    std::map<int, Elsewhere> elsewhere_;
    std::map<int, unsigned> got_;
    std::map<int, unsigned> acted_;
};

} // namespace rdma_nccl
