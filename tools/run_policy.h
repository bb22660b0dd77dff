// SPDX-License-Identifier: Apache-2.0
// When and how a job's ranks are ended: decisions only, so that they can be tested without processes.
#pragma once

#include <chrono>
#include <optional>
#include <set>

namespace rdma_nccl {

/// After SIGKILL a process is gone at once, or hangs in a driver or file system for who knows how long.
inline constexpr std::chrono::seconds kill_patience{10};

class EndPolicy {
public:
    using Time = std::chrono::steady_clock::time_point;

    enum class Phase {
        Running,
        Ending,  ///< the end signal was sent; at the deadline comes SIGKILL
        Killing, ///< SIGKILL was sent; at the deadline the launcher waits no longer
        GivenUp, ///< what still runs hangs in the kernel
    };

    /// What is to be sent; 0: nothing.
    struct Action {
        int to_groups = 0; ///< to all processes of all ranks
        int to_ranks = 0;  ///< to the ranks' own processes

        friend bool operator==(const Action&, const Action&) = default;
    };

    /// `grace`: between the end signal and SIGKILL. `end_signals`: those that end the job.
    EndPolicy(std::chrono::milliseconds grace, std::set<int> end_signals)
        : grace_(grace), end_signals_(std::move(end_signals)) {}

    /// A rank failed, or could not be started. The first one ends the others.
    Action on_failure(Time now);
    /// End signals end the job; INT while it is being ended kills at once. The others are passed on: TSTP
    /// and CONT to the groups, as a stopped rank whose helpers run on would be half stopped; USR1, USR2, WINCH to the
    /// ranks alone, as Slurm does it: they would kill helpers, which have no handler.
    Action on_signal(int signal_number, Time now);
    /// The process that guards this one was killed: whoever did it wants no grace.
    Action on_guard_gone(Time now);
    /// All ranks ended, but processes that they left behind run.
    void on_leftovers(Time now);
    /// To be called when the deadline may have come.
    Action on_time(Time now);
    /// What still runs cannot be reached: do not wait for it.
    void give_up();

    [[nodiscard]] Phase phase() const { return phase_; }
    [[nodiscard]] std::optional<Time> deadline() const { return deadline_; }
    /// What leftovers get in this phase: the end signal or SIGKILL.
    [[nodiscard]] int leftover_signal() const;

private:
    void end(Time now);
    Action kill(Time now);

    std::chrono::milliseconds grace_;
    std::set<int> end_signals_;
    Phase phase_ = Phase::Running;
    std::optional<Time> deadline_;
};

} // namespace rdma_nccl
