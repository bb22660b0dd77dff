// SPDX-License-Identifier: Apache-2.0
#include "lib/child.h"

#include <cerrno>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {

bool run_in_child(std::chrono::milliseconds limit, const std::function<void()>& work) {
    using Clock = std::chrono::steady_clock;
    const pid_t pid = ::fork();
    if (pid < 0) {
        return false;
    }
    if (pid == 0) {
        try {
            work();
        } catch (...) {
            ::_exit(1);
        }
        ::_exit(0);
    }
    const auto deadline = Clock::now() + limit;
    bool killed = false;
    for (auto pause = std::chrono::microseconds(200);; pause = std::min(pause * 2, std::chrono::microseconds(10000))) {
        int status = 0;
        const pid_t ended = ::waitpid(pid, &status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) {
            return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        if (!killed && Clock::now() >= deadline) {
            (void)::kill(pid, SIGKILL);
            killed = true;
        } else if (killed && Clock::now() >= deadline + std::chrono::milliseconds(100)) {
            return false; // asleep in a driver: whoever waits for this process's children then has it
        }
        std::this_thread::sleep_for(pause);
    }
}

} // namespace rdma_nccl
