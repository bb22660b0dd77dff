// SPDX-License-Identifier: Apache-2.0
#include "lib/base/forked_worker.h"

#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void expect_no_child() {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
}

TEST(Child, DoesItsWorkInAnotherProcess) {
    int value = 1;
    int pipe[2] = {-1, -1};
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t own = ::getpid();
    EXPECT_TRUE(run_in_child(
        seconds(30),
        [&] {
            value = 2;
            const pid_t pid = ::getpid();
            if (::write(pipe[0], &pid, 1) < 0 && errno == EBADF) { // this end is not kept
                (void)!::write(pipe[1], &pid, sizeof pid);
            }
        },
        std::array{pipe[1]}));
    EXPECT_EQ(value, 1);
    ::close(pipe[1]); // a child that has lost its end must not be waited for
    pid_t child = 0;
    EXPECT_EQ(::read(pipe[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
    EXPECT_NE(child, own);
    ::close(pipe[0]);
    expect_no_child();
}

TEST(Child, ThatFailsIsAFailure) {
    EXPECT_FALSE(run_in_child(seconds(30), [] { throw std::runtime_error("no"); }));
    EXPECT_FALSE(run_in_child(seconds(30), [] { ::_exit(3); }));
    EXPECT_FALSE(run_in_child(seconds(30), [] { (void)::kill(::getpid(), SIGKILL); }));
    EXPECT_TRUE(run_in_child(seconds(30), [] { ::_exit(0); }));
    expect_no_child();
}

TEST(Child, ThatHangsIsKilled) {
    EXPECT_FALSE(run_in_child(milliseconds(100), [] {
        (void)::signal(SIGTERM, SIG_IGN);
        ::sleep(60);
    }));
    expect_no_child();
}

} // namespace
} // namespace rdma_nccl
