// SPDX-License-Identifier: Apache-2.0
// Decides when and how a job's ranks are ended. It only decides, so that it can be tested without processes.
#pragma once

#include <chrono>
#include <optional>
#include <set>

namespace rdma_nccl::run {

/// Time to wait after SIGKILL. A process ends at once, or hangs in a driver or file system for an unknown time.
inline constexpr std::chrono::seconds kill_timeout{10};

class EndPolicy {
public:
    using Time = std::chrono::steady_clock::time_point;

    enum class Phase {
        Running,
        Ending,  ///< the end signal was sent; SIGKILL follows at the deadline
        Killing, ///< SIGKILL was sent; the launcher stops waiting at the deadline
        GivenUp, ///< the remaining processes hang in the kernel
    };

    /// The signals to send; 0: none.
    struct Action {
        int to_groups = 0; ///< to all processes of all ranks
        int to_ranks = 0;  ///< to the ranks' own processes

        friend bool operator==(const Action&, const Action&) = default;
    };

    /// `grace`: the time between the end signal and SIGKILL. `end_signals`: the signals that end the job.
    EndPolicy(std::chrono::milliseconds grace, std::set<int> end_signals)
        : grace_(grace), end_signals_(std::move(end_signals)) {}

    /// A rank failed, or could not be started. The first failure ends the others.
    Action on_failure(Time now);
    /// A signal arrived. End signals end the job; while it ends, SIGINT kills at once. Other signals are passed on:
    /// SIGTSTP and SIGCONT to the groups, because a stopped rank with running helpers would be only half stopped;
    /// SIGUSR1, SIGUSR2 and SIGWINCH only to the ranks, as Slurm does, because they would kill helpers without a
    /// handler.
    Action on_signal(int signal_number, Time now);
    /// The guard process was killed: no grace.
    Action on_guard_gone(Time now);
    /// All ranks have ended, but processes that they left behind still run.
    void on_leftovers(Time now);
    /// To be called at the deadline; earlier calls do nothing.
    Action on_time(Time now);
    /// The remaining processes cannot be reached: the launcher must not wait for them.
    void give_up();

    [[nodiscard]] Phase phase() const { return phase_; }
    [[nodiscard]] std::optional<Time> deadline() const { return deadline_; }
    /// Returns the signal for leftover processes in this phase: SIGTERM or SIGKILL.
    [[nodiscard]] int leftover_signal() const;

private:
    void end(Time now);
    Action kill(Time now);

    std::chrono::milliseconds grace_;
    std::set<int> end_signals_;
    Phase phase_ = Phase::Running;
    std::optional<Time> deadline_;
};

} // namespace rdma_nccl::run
