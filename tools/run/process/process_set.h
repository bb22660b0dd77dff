// SPDX-License-Identifier: Apache-2.0
// The processes of the ranks, the processes that they left behind, and the only place where the launcher waits: for
// their ends, for signals, and for the end of the guard process. The set decides nothing; it reports what happened.
// RankEnder ends the processes.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/sys/resources.h"
#include "lib/sys/signal_fd.h"
#include "tools/run/process/signal_policy.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl::run {

/// A program that can be executed.
struct Command {
    std::string file;                   ///< path for execve(2)
    std::vector<std::string> arguments; ///< including argv[0]
};

/// Returns a descriptor that is readable when the process has ended, pidfd_open(2). Empty if there is no such process,
/// or if the kernel has no pidfds.
UniqueFd open_pidfd(pid_t pid);

/// Reaps all children that have ended, and calls `ended` for each. Returns true if there are others.
bool reap_children(const std::function<void(pid_t pid, int status)>& ended);

struct RankExit {
    std::size_t index = 0; ///< number of the start(), from 0
    pid_t pid = 0;
    int status = 0;                ///< from waitpid(2)
    std::optional<int> exec_error; ///< set if the program was not executed: errno
    std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now(); ///< of the end, as noticed
};

struct Events {
    std::vector<ReceivedSignal> signals; ///< without SIGCHLD
    std::vector<RankExit> exits;         ///< in the order of their ends (of their starts if the kernel has no pidfds)
    bool guard_gone = false;             ///< the other end of the watched descriptor was closed
};

class ProcessSet {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// `guard_fd`: the read end of a pipe to watch, or -1. Without pidfds (Linux before 5.3, or forbidden by seccomp)
    /// only SIGCHLD reports ends; tests of that set `use_pidfds` to false.
    static Result<ProcessSet> create(const BlockedSignals& signals, int guard_fd, bool use_pidfds = true);

    /// Starts a rank. The first rank gets the launcher's stdin, the others /dev/null. `out_fd` and `err_fd` become its
    /// stdout and stderr. If `binding` fails, a warning is printed and the rank runs without it. The rank leads a
    /// process group of its own. It gets SIGKILL when the calling thread ends, so that thread must live as long as the
    /// process.
    Result<pid_t> start(const Command& command, const std::vector<std::string>& environment,
                        const Binding& binding = {}, int out_fd = STDOUT_FILENO, int err_fd = STDERR_FILENO);

    /// Makes wait() also return when `fd` is readable, until it is closed; with `once` only the first time, for a
    /// descriptor that stays readable. Returns false if the kernel refuses.
    [[nodiscard]] bool also_watch(int fd, bool once = false) const;

    /// Forgets all ranks, none of which may be running. The index of the next one is 0.
    void clear() { ranks_.clear(); }

    /// Waits for an event, at most until the given time. Reaps all children that have ended, including those that are
    /// not ranks.
    Result<Events> wait(std::optional<Time> until);

    [[nodiscard]] std::size_t running() const { return running_pids().size(); }
    /// Returns true if there was any child at the last wait(): a rank, or a process that a rank left behind.
    [[nodiscard]] bool has_children() const { return has_children_; }
    [[nodiscard]] std::vector<pid_t> running_pids() const;

    /// Returns true if wait() reports this signal.
    [[nodiscard]] bool handles(int signal_number) const {
        return ::sigismember(&signals_.handled(), signal_number) == 1;
    }

    /// Sends the signal to the running ranks themselves, or to all processes of their groups.
    void signal_ranks(int signal_number, bool groups = false) const;

private:
    struct Rank {
        pid_t pid = 0;
        UniqueFd pidfd;
        bool running = true;
        std::optional<int> exec_error = {};
    };

    ProcessSet(const BlockedSignals& signals, SignalReader reader, bool use_pidfds)
        : signals_(signals), reader_(std::move(reader)), use_pidfds_(use_pidfds) {}
    [[nodiscard]] bool watch(int fd, std::size_t key, std::uint32_t what) const;
    void reap_rank(std::size_t index, Events& events);
    void note_exit(Rank& rank, int status, Events& events);
    void add_exec_failures(Events& events);

    const BlockedSignals& signals_;
    SignalReader reader_;
    std::optional<rlimit> old_file_limit_; ///< for the ranks; the launcher's own is raised
    UniqueFd epoll_;
    UniqueFd null_; ///< kept open, because a rank that has reached its limit of descriptors cannot open it
    Pipe report_;   ///< of ExecFailures
    std::vector<Rank> ranks_;
    bool has_children_ = false;
    bool use_pidfds_ = true;
};

/// The slurmstepd of this step. Slurm ends a step through it; if it is killed, nobody else would end the processes
/// below it.
struct StepDaemon {
    pid_t pid = -1; ///< -1: none
    UniqueFd end;   ///< readable once it has ended; empty: not watched
};
StepDaemon find_step_daemon();

/// Signals the processes that the ranks left behind, each once per signal. The launcher is their subreaper
/// (PR_SET_CHILD_SUBREAPER, prctl(2)): every descendant that loses its parent becomes its child, even a daemon that
/// forked twice.
class ChildSweep {
public:
    /// Sends `signal_number` to all children that have not got it yet. Returns their number.
    Result<std::size_t> signal_new(int signal_number);

private:
    std::set<std::pair<pid_t, int>> done_;
};

/// Ends a node's ranks and the processes that they left behind, as EndPolicy decides, and reports it.
class RankEnder {
public:
    using Time = EndPolicy::Time;
    using Report = std::function<void(const std::string&)>;

    /// `node`: for messages.
    RankEnder(ProcessSet& processes, std::string node, EndPolicy policy, Report report)
        : processes_(processes), node_(std::move(node)), first_policy_(std::move(policy)), report_(std::move(report)) {}

    /// Forgets the ranks, because new ones are started.
    void start_attempt();

    [[nodiscard]] bool is_ending() const { return policy_.phase() != EndPolicy::Phase::Running; }
    [[nodiscard]] std::optional<Time> deadline() const { return earlier(policy_.deadline(), leftovers_due_); }
    [[nodiscard]] bool ends_job(int signal_number) const { return policy_.ends_job(signal_number); }

    // See EndPolicy.
    void on_failure(Time now) { send(policy_.on_failure(now)); }
    void on_guard_gone(Time now) { send(policy_.on_guard_gone(now)); }
    void on_time(Time now);
    /// `pass_on`: the ranks have not received the signal already.
    void on_signal(int signal_number, bool pass_on, Time now);

    /// To be called when no rank runs. Returns false while processes that the ranks left behind are being ended.
    bool end_leftovers(Time now);
    /// Returns true if processes were left alone, because they hang in the kernel or cannot be found.
    [[nodiscard]] bool gave_up() const { return policy_.phase() == EndPolicy::Phase::GivenUp; }
    void report_left_alone() const;

private:
    void send(const EndPolicy::Action& action) const;
    /// Returns true while processes that the ranks left behind may still end by themselves.
    bool may_leave_alone(Time now);

    ProcessSet& processes_;
    std::string node_;
    EndPolicy first_policy_; ///< at the start of an attempt
    Report report_;
    EndPolicy policy_ = first_policy_;
    ChildSweep leftovers_;
    std::optional<Time> leftovers_due_; ///< when those that still run are ended
};

/// Forks. The child calls `work` with a descriptor that becomes readable when the calling process, the guard, is gone.
/// The guard passes its signals on to the child. When the child has ended, the guard adopts the processes that it left
/// behind and kills them. Returns in the guard only, with the exit code: the result of `work` in the child, or 128 +
/// the signal that killed the child.
int run_guarded(const BlockedSignals& signals, const std::function<int(int guard_fd)>& work);

} // namespace rdma_nccl::run
