// SPDX-License-Identifier: Apache-2.0
// When and how a job's ranks are ended, and with which code the launcher ends: decisions only, so that they can be
// tested without processes.
#pragma once

#include <chrono>
#include <optional>
#include <set>

namespace rdma_nccl {

/// INT, TERM, HUP and QUIT, as torchrun's --signals-to-handle.
std::set<int> usual_end_signals();

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
    explicit EndPolicy(std::chrono::milliseconds grace, std::set<int> end_signals = usual_end_signals())
        : grace_(grace), end_signals_(std::move(end_signals)) {}

    /// A rank failed with this code (128 + n for a signal), or could not be started. The first one ends the others.
    Action on_failure(int code, Time now);
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
    [[nodiscard]] int exit_code() const { return exit_code_; }

private:
    void end(int signal_number, Time now);
    Action kill(Time now);

    std::chrono::milliseconds grace_;
    std::set<int> end_signals_;
    Phase phase_ = Phase::Running;
    std::optional<Time> deadline_;
    int end_signal_ = 0;
    int exit_code_ = 0;
};

} // namespace rdma_nccl
