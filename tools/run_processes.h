// SPDX-License-Identifier: Apache-2.0
// The processes of the ranks, those that they left behind, and the one place where the launcher waits: for their ends,
// for signals, and for the end of the process that guards it. The set decides nothing; it says what happened.
#pragma once

#include "lib/binding.h"
#include "lib/result.h"
#include "lib/unique_fd.h"
#include "tools/run_program.h"
#include "tools/run_signals.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

/// Becomes readable when the process ends, pidfd_open(2). Empty where there is no such process, or no pidfd.
UniqueFd open_pidfd(pid_t pid);

/// Raises the soft limit of open files to the hard one: the launcher keeps a descriptor per rank.
class FileLimit {
public:
    FileLimit();
    /// The limit as it was: for a child about to execute a rank, whose program may use select(2).
    void restore() const;

private:
    rlimit old_{};
    bool changed_ = false;
};

struct RankExit {
    std::size_t index = 0; ///< of start(), from 0
    pid_t pid = 0;
    int status = 0;                ///< of waitpid(2)
    std::optional<int> exec_error; ///< the program was not executed: errno
};

struct Events {
    std::vector<ReceivedSignal> signals; ///< without SIGCHLD
    std::vector<RankExit> exits; ///< first to end first (in the order of their starts where the kernel has no pidfd)
    bool guard_gone = false;     ///< the watched descriptor was closed at its other end
};

class ProcessSet {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// `guard_fd`: a pipe's read end to watch, or -1. Without pidfds (Linux before 5.3, or forbidden by seccomp) ends
    /// are known by SIGCHLD alone; `use_pidfds` false is for tests of that.
    static Result<ProcessSet> create(const BlockedSignals& signals, int guard_fd, bool use_pidfds = true);

    /// The first rank started gets the launcher's stdin, the others /dev/null. `out_fd` and `err_fd` become its stdout
    /// and stderr. What cannot be done of `binding` is said, and the rank runs. It leads a process group of its own,
    /// and gets SIGKILL when the calling thread ends: that must be one that lives as long as the process.
    Result<pid_t> start(const Command& command, const std::vector<std::string>& environment,
                        const Binding& binding = {}, int out_fd = STDOUT_FILENO, int err_fd = STDERR_FILENO);

    /// wait() returns when it can be read, too, until its close; `once`: the first time only, for one that stays so.
    /// False: the kernel does not want it.
    [[nodiscard]] bool also_watch(int fd, bool once = false) const;

    /// Forgets all ranks, of which none may run: the next one started has the index 0 again.
    void clear();

    /// Waits until something happened or the time has come. Reaps all children that ended, those too that are no ranks.
    Result<Events> wait(std::optional<Time> until);

    [[nodiscard]] std::size_t running() const { return running_; }
    /// Any child, known after wait(): a rank, or a process that a rank left behind.
    [[nodiscard]] bool has_children() const { return has_children_; }
    [[nodiscard]] std::vector<pid_t> running_pids() const;

    /// To the process groups of all ranks that run.
    void signal_groups(int signal_number) const;
    /// To the ranks themselves only.
    void signal_ranks(int signal_number) const;

private:
    struct Rank {
        pid_t pid = 0;
        UniqueFd pidfd;
        bool running = true;
        std::optional<int> exec_error = {};
    };

    ProcessSet(const BlockedSignals& signals, SignalReader reader, bool use_pidfds)
        : signals_(signals), reader_(std::move(reader)), use_pidfds_(use_pidfds) {}
    Result<void> open_descriptors(int guard_fd);
    [[nodiscard]] bool watch(int fd, std::size_t key, std::uint32_t what) const;
    void read_signals(Events& events) const;
    void reap_rank(std::size_t index, Events& events);
    void reap_children(Events& events);
    void note_exit(Rank& rank, int status, Events& events);
    void add_exec_failures(Events& events);

    const BlockedSignals& signals_;
    SignalReader reader_;
    FileLimit files_;
    UniqueFd epoll_;
    UniqueFd null_; ///< as a rank that has as many descriptors as it may can open none
    UniqueFd report_read_;
    UniqueFd report_write_;
    std::vector<Rank> ranks_;
    std::size_t running_ = 0;
    bool has_children_ = false;
    bool use_pidfds_ = true;
};

/// The children of the calling thread, which is the one that forks. Fails where /proc does not tell.
Result<std::vector<pid_t>> list_children();

/// Signals children, each of them once with each signal: those that the ranks left behind. A launcher is their
/// subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)): whatever loses its parent below it, a daemon that forked twice too,
/// becomes its child.
class ChildSweep {
public:
    /// The children to which `signal_number` was not sent before get it now; returns how many these were.
    Result<std::size_t> signal_new(int signal_number);

private:
    std::set<std::pair<pid_t, int>> done_;
};

} // namespace rdma_nccl
