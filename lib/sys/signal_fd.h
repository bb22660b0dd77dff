// SPDX-License-Identifier: Apache-2.0
// Signals as data: they are blocked, and the event loop reads them from a descriptor (signalfd(2)).
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

#include <cerrno>
#include <csignal>
#include <new>
#include <optional>
#include <set>
#include <sys/types.h>
#include <system_error>
#include <thread>
#include <utility>

namespace rdma_nccl {

/// Blocks the signals that a launcher handles, as long as the object lives. A signal that was ignored when the launcher
/// started (by nohup, or by a shell for its background jobs) stays ignored, in the launcher and in the ranks.
class BlockedSignals {
public:
    /// `more`: signals in addition to the usual ones.
    explicit BlockedSignals(const std::set<int>& more = {});
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;
    ~BlockedSignals();

    /// Returns the signals that a SignalReader reads: INT, TERM, HUP, QUIT, USR1, USR2, CONT, WINCH, TSTP, CHLD and
    /// `more`.
    [[nodiscard]] const sigset_t& handled() const { return handled_; }
    /// Leaves the signals blocked when this object ends, in a process that ends next: what comes late must not change
    /// its exit code.
    void keep_blocked() { keeps_blocked_ = true; }
    /// Restores the signal mask and the dispositions, for a child that is about to execute another program.
    void restore() const;

private:
    sigset_t handled_{};
    sigset_t old_mask_{};
    struct sigaction old_child_action_ {};
    struct sigaction old_pipe_action_ {};
    bool keeps_blocked_ = false;
};

struct ReceivedSignal {
    int number = 0;
    pid_t sender = 0; ///< 0: the kernel, or a process outside of our pid namespace
};

/// Reads the signals sent to the process that opened it.
class SignalReader {
public:
    static Result<SignalReader> open(const BlockedSignals& blocked);
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// Returns the next signal; nullopt if there is none now.
    [[nodiscard]] std::optional<ReceivedSignal> next() const;

private:
    explicit SignalReader(UniqueFd fd) : fd_(std::move(fd)) {}
    UniqueFd fd_;
};

/// Starts a thread that gets no signals, which go to the calling thread. Fails if no thread can be started.
template<typename Work>
Result<std::thread> thread_without_signals(Work work) {
    sigset_t all{};
    sigset_t before{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before); // a new thread inherits the mask
    Result<std::thread> thread;
    try {
        thread = std::thread(std::move(work));
    } catch (const std::system_error& fault) {
        thread = fail(fault.code().message(), fault.code().value());
    } catch (const std::bad_alloc&) {
        thread = fail("no memory for a thread", ENOMEM);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

} // namespace rdma_nccl
