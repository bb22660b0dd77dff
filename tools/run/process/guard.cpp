// SPDX-License-Identifier: Apache-2.0
#include "tools/run/process/guard.h"

#include "lib/base/format.h"
#include "lib/base/unique_fd.h"
#include "lib/sys/node_name.h"
#include "tools/common/print.h"
#include "tools/common/process.h"
#include "tools/run/process/end_policy.h"
#include "tools/run/process/process_set.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
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
        while (!ended_) {
            wait_for_signal(-1);
            reap();
        }
        return status_;
    }

    /// Kills all processes that the child left behind. Waits at most kill_timeout.
    void kill_rest() {
        ChildSweep sweep;
        const auto end = Clock::now() + kill_timeout;
        while (has_children_ && Clock::now() < end && sweep.signal_new(SIGKILL)) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
            wait_for_signal(static_cast<int>(std::max<decltype(left)>(left, 0)));
            reap();
        }
    }

private:
    void wait_for_signal(int timeout_ms) {
        pollfd waited{reader_.fd(), POLLIN, 0};
        ::poll(&waited, 1, timeout_ms);
        while (const auto received = reader_.next()) {
            if (received->number == SIGCHLD || ended_) {
                continue;
            }
            ::kill(child_, received->number);
            if (received->number == SIGTSTP) {
                stop_self();
            }
        }
    }

    void reap() {
        while (true) {
            int status = 0;
            const pid_t pid = ::waitpid(-1, &status, WNOHANG);
            if (pid <= 0) {
                has_children_ = pid == 0;
                return;
            }
            if (pid == child_) {
                status_ = status;
                ended_ = true;
            }
        }
    }

    pid_t child_;
    const SignalReader& reader_;
    int status_ = 0;
    bool ended_ = false;
    bool has_children_ = true;
};

int fail_to_start(const std::string& what) {
    print_error(format_text("{}: {}", what, ::strerror(errno)));
    return 1;
}

} // namespace

int run_guarded(const BlockedSignals& signals, const std::function<int(int guard_fd)>& work) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail_to_start("cannot open a pipe");
    }
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const auto reader = SignalReader::open(signals);
    if (!reader) {
        return fail_to_start(reader.error().message);
    }
    const pid_t child = ::fork();
    if (child < 0) {
        return fail_to_start("cannot start a process");
    }
    if (child == 0) {
        write_end.reset(); // now only the guard has the write end: it closes when the guard ends
        // Signals to the guard's process group (Ctrl-C, kill -9 %1) must reach this process only through the guard.
        ::setsid();
        // Not by return: threads may hang in drivers or on the console, so destructors must not run.
        const int code = work(read_end.get());
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
