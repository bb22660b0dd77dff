// SPDX-License-Identifier: Apache-2.0
#include "lib/base/forked_worker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

void close_from_to(unsigned first, unsigned last) noexcept {
    if (first > last || ::syscall(SYS_close_range, first, last, 0U) == 0) {
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
    std::ranges::sort(sorted);
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

bool Child::has_ended() const {
    siginfo_t ended{}; // its si_pid stays 0 while the child runs, waitid(2)
    const auto id = static_cast<id_t>(pid_);
    return pid_ < 0 || ::waitid(P_PID, id, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == pid_;
}

bool Child::finish(milliseconds limit) {
    using std::chrono::microseconds;
    constexpr milliseconds to_die(100);
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

bool run_in_child(milliseconds limit, const std::function<void()>& work, std::span<const int> keep) {
    auto child = Child::start(work, keep);
    return child && child->finish(limit);
}

std::optional<ChildText> ChildText::start(const std::function<std::string()>& work, std::span<const int> keep,
                                          Inherit inherit) {
    auto pipe = open_pipe();
    if (!pipe) {
        return std::nullopt;
    }
    const int out = pipe->writer.get();
    std::vector<int> kept(keep.begin(), keep.end());
    kept.push_back(out);
    auto child = Child::start([&] { (void)write_all(out, work()); }, kept, inherit);
    return child ? std::optional(ChildText(std::move(*child), std::move(pipe->reader))) : std::nullopt;
}

std::optional<std::string> ChildText::finish(Clock::time_point deadline) {
    std::string text;
    std::array<char, 65536> bytes{};
    for (;;) {
        pollfd waiting{pipe_.get(), POLLIN, 0};
        if (poll_until({&waiting, 1}, deadline) <= 0) {
            if (Clock::now() < deadline) {
                continue;
            }
            (void)child_.finish(milliseconds(0));
            return std::nullopt;
        }
        const ssize_t count = ::read(pipe_.get(), bytes.data(), bytes.size());
        if (count <= 0) {
            break;
        }
        text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    constexpr milliseconds to_exit(100); // all output has been read
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    return child_.finish(std::max(left, to_exit)) ? std::optional(std::move(text)) : std::nullopt;
}

} // namespace rdma_nccl
