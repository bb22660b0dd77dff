// SPDX-License-Identifier: Apache-2.0
// A launcher of two processes that watch each other, so that nothing survives a SIGKILL of either. PR_SET_PDEATHSIG
// ends the ranks of a dead launcher, but not what they forked: init would adopt a daemon, and it would keep running.
#include "lib/base/format.h"
#include "lib/sys/environment.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/run/process/process_set.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

using Clock = std::chrono::steady_clock;

/// Handles Ctrl-Z: the child has passed it on to the ranks; now the guard stops too, so that the shell gets control.
void stop_self() {
    sigset_t stop;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTSTP);
    static_cast<void>(::raise(SIGTSTP)); // cannot fail: the signal exists
    ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
    ::sigprocmask(SIG_BLOCK, &stop, nullptr);
}

class Guard {
public:
    Guard(pid_t child, const SignalReader& reader) : child_(child), reader_(reader) {}

    /// Waits until the child has ended. Returns its status.
    int watch() {
        while (!status_) {
            wait_for_signal(std::nullopt);
        }
        return *status_;
    }

    /// Kills all processes that the child left behind. Waits at most kill_timeout.
    void kill_rest() {
        ChildSweep sweep;
        const auto end = Clock::now() + kill_timeout;
        while (has_children_ && Clock::now() < end && sweep.signal_new(SIGKILL)) {
            wait_for_signal(end);
        }
    }

private:
    /// Passes signals on to the child until it has ended.
    void wait_for_signal(std::optional<Clock::time_point> until) {
        pollfd waited{reader_.fd(), POLLIN, 0};
        poll_until({&waited, 1}, until);
        while (const auto received = reader_.next()) {
            if (received->number != SIGCHLD && !status_) {
                ::kill(child_, received->number);
                if (received->number == SIGTSTP) {
                    stop_self();
                }
            }
        }
        has_children_ = reap_children([this](pid_t pid, int status) {
            if (pid == child_) {
                status_ = status;
            }
        });
    }

    pid_t child_;
    const SignalReader& reader_;
    std::optional<int> status_; ///< of the child; absent: it runs
    bool has_children_ = true;
};

int fail_to_start(const std::string& what) {
    print_error(format_text("{}: {}", what, ::strerror(errno)));
    return 1;
}

} // namespace

int run_guarded(const BlockedSignals& signals, const std::function<int(int guard_fd)>& work) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto pipe = open_pipe();
    if (!pipe) {
        return fail_to_start("cannot open a pipe");
    }
    const auto reader = SignalReader::open(signals);
    if (!reader) {
        return fail_to_start(reader.error().message);
    }
    const pid_t child = ::fork();
    if (child < 0) {
        return fail_to_start("cannot start a process");
    }
    if (child == 0) {
        pipe->writer.reset(); // now only the guard has the write end: it closes when the guard ends
        // Signals to the guard's process group (Ctrl-C, kill -9 %1) must reach this process only through the guard.
        ::setsid();
        // Not by return: threads may hang in drivers or on the console, so destructors must not run.
        const int code = work(pipe->reader.get());
        static_cast<void>(std::fflush(nullptr)); // a console that accepts no output is not an error
        ::_exit(code);
    }
    Guard guard(child, *reader);
    const int status = guard.watch();
    if (WIFSIGNALED(status)) {
        print_error(format_text("{}: the launcher, pid {}, was killed by {}; killing its ranks", own_node_name(), child,
                                signal_text(WTERMSIG(status))));
    }
    guard.kill_rest();
    return exit_code_for_status(status);
}

} // namespace rdma_nccl::run
