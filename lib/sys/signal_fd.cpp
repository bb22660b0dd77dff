// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/signal_fd.h"

#include <array>
#include <cerrno>
#include <sys/signalfd.h>

namespace rdma_nccl {

namespace {

constexpr std::array usual_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH, SIGTSTP};

bool is_ignored(int signal_number) {
    struct sigaction action {};
    return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Returns the previous action.
struct sigaction replace_action(int signal_number, void (*handler)(int)) {
    struct sigaction action {};
    struct sigaction old {};
    action.sa_handler = handler;
    ::sigaction(signal_number, &action, &old);
    return old;
}

} // namespace

BlockedSignals::BlockedSignals(const std::set<int>& more) {
    ::sigemptyset(&handled_);
    std::set<int> signals(usual_signals.begin(), usual_signals.end());
    signals.insert(more.begin(), more.end());
    for (const int signal_number : signals) {
        if (!is_ignored(signal_number)) {
            ::sigaddset(&handled_, signal_number);
        }
    }
    ::sigaddset(&handled_, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &handled_, &old_mask_);
    // If SIGCHLD were ignored, the kernel would reap the ranks, and their exit codes would be lost (waitpid(2)).
    old_child_action_ = replace_action(SIGCHLD, SIG_DFL);
    // The job must not end because a reader of our stderr is gone.
    old_pipe_action_ = replace_action(SIGPIPE, SIG_IGN);
}

BlockedSignals::~BlockedSignals() {
    if (keeps_blocked_) {
        return;
    }
    const timespec at_once{};
    while (::sigtimedwait(&handled_, nullptr, &at_once) > 0) {
    }
    restore();
}

void BlockedSignals::restore() const {
    ::sigaction(SIGPIPE, &old_pipe_action_, nullptr);
    ::sigaction(SIGCHLD, &old_child_action_, nullptr);
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

Result<SignalReader> SignalReader::open(const BlockedSignals& blocked) {
    UniqueFd fd(::signalfd(-1, &blocked.handled(), SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        return fail("cannot open a signalfd", errno);
    }
    return SignalReader(std::move(fd));
}

std::optional<ReceivedSignal> SignalReader::next() const {
    signalfd_siginfo info{};
    if (::read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) {
        return std::nullopt;
    }
    return ReceivedSignal{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid)};
}

} // namespace rdma_nccl
