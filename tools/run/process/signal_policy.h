// SPDX-License-Identifier: Apache-2.0
// Decides when and how a job's ranks are ended and get signals. It only decides, so that it can be tested without
// processes.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <vector>

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
    Action on_guard_gone(Time now) { return kill(now); }
    /// All ranks have ended, but processes that they left behind still run.
    void on_leftovers(Time now) {
        if (phase_ == Phase::Running) {
            end(now);
        }
    }
    /// To be called at the deadline; earlier calls do nothing.
    Action on_time(Time now);
    /// The remaining processes cannot be reached: the launcher must not wait for them.
    void give_up();

    [[nodiscard]] Phase phase() const { return phase_; }
    [[nodiscard]] std::chrono::milliseconds grace() const { return grace_; }
    [[nodiscard]] bool ends_job(int signal_number) const { return end_signals_.contains(signal_number); }
    [[nodiscard]] std::optional<Time> deadline() const { return deadline_; }
    /// Returns the signal for leftover processes in this phase: SIGTERM or SIGKILL.
    [[nodiscard]] int leftover_signal() const { return phase_ == Phase::Ending ? SIGTERM : SIGKILL; }

private:
    void end(Time now);
    Action kill(Time now);

    std::chrono::milliseconds grace_;
    std::set<int> end_signals_;
    Phase phase_ = Phase::Running;
    std::optional<Time> deadline_;
};

/// Counts signals that arrive in several ways, so that each is handled once. They come from the guard to this launcher;
/// to this launcher directly, and perhaps to its ranks; and from launchers of other nodes, each of which may have
/// received the same signal from scancel.
class SignalDedup {
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

    /// A rank was killed by the signal. If Slurm has sent it, this launcher's own copy may come later.
    void expect(int signal, Time now);

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
    struct Elsewhere {
        Time due;
        unsigned count = 0;
    };

    // By signal:
    std::map<int, Waiting> waiting_;
    std::map<int, Time> guard_due_; ///< when the signal was handled before the guard's copy arrived
    std::map<int, Elsewhere> elsewhere_;
    std::map<int, unsigned> received_;
    std::map<int, unsigned> handled_;
};

/// Returns the earlier of two times that may be absent.
inline std::optional<EndPolicy::Time> earlier(std::optional<EndPolicy::Time> a, std::optional<EndPolicy::Time> b) {
    return a && b ? std::min(*a, *b) : a ? a : b;
}

} // namespace rdma_nccl::run
