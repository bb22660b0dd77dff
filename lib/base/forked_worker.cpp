// SPDX-License-Identifier: Apache-2.0
#include "lib/base/forked_worker.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rdma_nccl {

namespace {

void close_from_to(unsigned first, unsigned last) noexcept {
    if (first > last) {
        return;
    }
    if (::syscall(SYS_close_range, first, last, 0U) == 0) {
        return;
    }
    const auto most = static_cast<unsigned>(std::max(::getdtablesize(), 0)); // fallback before Linux 5.9
    for (unsigned fd = first; fd <= last && fd < most; ++fd) {
        (void)::close(static_cast<int>(fd));
    }
}

} // namespace

void close_all_but(std::span<const int> keep) {
    std::vector<int> sorted(keep.begin(), keep.end());
    std::sort(sorted.begin(), sorted.end());
    unsigned next = 3;
    for (const int fd : sorted) {
        if (fd >= static_cast<int>(next)) {
            close_from_to(next, static_cast<unsigned>(fd) - 1);
            next = static_cast<unsigned>(fd) + 1;
        }
    }
    close_from_to(next, ~0U);
}

std::optional<Child> Child::start(const std::function<void()>& work, std::span<const int> keep, Inherit inherit) {
    const pid_t pid = ::fork();
    if (pid < 0) {
        return std::nullopt;
    }
    if (pid == 0) {
        try {
            if (inherit == Inherit::Few) {
                close_all_but(keep);
            }
            work();
        } catch (...) {
            ::_exit(1);
        }
        ::_exit(0);
    }
    return Child(pid);
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
    (void)finish(std::chrono::milliseconds(0));
}

bool Child::finish(std::chrono::milliseconds limit) {
    using Clock = std::chrono::steady_clock;
    using std::chrono::microseconds;
    constexpr std::chrono::milliseconds to_die(100);
    const pid_t pid = std::exchange(pid_, -1);
    if (pid < 0) {
        return false;
    }
    const auto deadline = Clock::now() + limit;
    bool killed = false;
    for (auto pause = microseconds(100);; pause = std::min(pause * 2, microseconds(10000))) {
        int status = 0;
        const pid_t ended = ::waitpid(pid, &status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) {
            return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        if (!killed && Clock::now() >= deadline) {
            (void)::kill(pid, SIGKILL);
            killed = true;
        } else if (killed && Clock::now() >= deadline + to_die) {
            return false; // stuck in a driver: left for whoever waits for this process's children
        }
        std::this_thread::sleep_for(pause);
    }
}

bool run_in_child(std::chrono::milliseconds limit, const std::function<void()>& work, std::span<const int> keep) {
    auto child = Child::start(work, keep);
    return child && child->finish(limit);
}

} // namespace rdma_nccl
