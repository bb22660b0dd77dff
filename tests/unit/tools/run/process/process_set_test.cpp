// SPDX-License-Identifier: Apache-2.0
// The set with real processes, with pidfds and without: Linux before 5.3 has none, seccomp may forbid them.
#include "tools/run/process/process_set.h"

#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

using std::chrono::seconds;

/// Far more than anything here takes: a test that waits this long has failed.
ProcessSet::Time limit() {
    return std::chrono::steady_clock::now() + seconds(30);
}

Command shell(const std::string& text) {
    return {"/bin/sh", {"sh", "-c", text}};
}

class RunProcesses : public testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        auto created = ProcessSet::create(signals_, -1, GetParam());
        ASSERT_TRUE(created) << created.error().message;
        set_.emplace(std::move(*created));
    }

    /// Until all ranks have ended: index and status of each.
    std::map<std::size_t, int> wait_for_all() {
        std::map<std::size_t, int> result;
        const auto end = limit();
        while (set_->running() > 0 && std::chrono::steady_clock::now() < end) {
            const auto events = set_->wait(end);
            for (const auto& rank_exit : events->exits) {
                result[rank_exit.index] = rank_exit.status;
                exec_errors_[rank_exit.index] = rank_exit.exec_error;
            }
        }
        return result;
    }

    BlockedSignals signals_;
    std::optional<ProcessSet> set_;
    std::map<std::size_t, std::optional<int>> exec_errors_;
};

TEST_P(RunProcesses, ExitCodes) {
    for (const int code : {0, 7, 255}) {
        ASSERT_TRUE(set_->start(shell("exit " + std::to_string(code)), {}));
    }
    const auto ends = wait_for_all();
    ASSERT_EQ(ends.size(), 3U);
    EXPECT_EQ(ends.at(0), 0);
    EXPECT_EQ(WEXITSTATUS(ends.at(1)), 7);
    EXPECT_EQ(WEXITSTATUS(ends.at(2)), 255);
}

TEST_P(RunProcesses, GroupsAreSignalled) {
    // The helper keeps the rank's group alive unless it is reached as well; then the pipe's end would not come.
    const auto pid = set_->start(shell("sleep 1000 & wait"), {});
    ASSERT_TRUE(pid);
    EXPECT_EQ(::getpgid(*pid), *pid);
    set_->signal_ranks(SIGKILL, true);
    const auto ends = wait_for_all();
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(WTERMSIG(ends.at(0)), SIGKILL);
    EXPECT_EQ(set_->running(), 0U);
}

TEST_P(RunProcesses, EnvironmentIsExactlyTheGivenOne) {
    ASSERT_TRUE(set_->start({"/usr/bin/env", {"env", "-u", "A", "sh", "-c", "test $B = 2 && test -z \"$HOME\""}},
                            {"A=1", "B=2", "PATH=/usr/bin:/bin"}));
    EXPECT_EQ(wait_for_all().at(0), 0);
}

TEST_P(RunProcesses, ExecFailureIsTold) {
    ASSERT_TRUE(set_->start({"/nonexistent/program", {"program"}}, {}));
    ASSERT_TRUE(set_->start(shell("exit 127"), {}));
    const auto ends = wait_for_all();
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(WEXITSTATUS(ends.at(0)), 127);
    EXPECT_EQ(exec_errors_.at(0), ENOENT);
    EXPECT_EQ(exec_errors_.at(1), std::nullopt) << "the program's own 127";
}

TEST_P(RunProcesses, SignalsAreEvents) {
    ::kill(::getpid(), SIGUSR1);
    const auto events = set_->wait(limit());
    ASSERT_TRUE(events);
    ASSERT_EQ(events->signals.size(), 1U);
    EXPECT_EQ(events->signals[0].number, SIGUSR1);
    EXPECT_EQ(events->signals[0].sender, ::getpid());
}

TEST_P(RunProcesses, RanksGetTheOldMaskAndDispositions) {
    // SIGUSR1 is blocked here; a rank that is ended by it has it unblocked.
    ASSERT_TRUE(set_->start(shell("kill -USR1 $$; exit 5"), {}));
    EXPECT_EQ(WTERMSIG(wait_for_all().at(0)), SIGUSR1);
}

INSTANTIATE_TEST_SUITE_P(Kernels, RunProcesses, testing::Bool(),
                         [](const auto& kernel) { return kernel.param ? "Pidfd" : "SigchldOnly"; });

TEST(RunProcessOrder, FirstToEndIsFirst) {
    const BlockedSignals signals;
    auto set = ProcessSet::create(signals, -1);
    ASSERT_TRUE(set);
    std::vector<pid_t> pids;
    for (int i = 0; i < 4; ++i) {
        const auto pid = set->start(shell("kill -STOP $$; exit 0"), {});
        ASSERT_TRUE(pid);
        int status = 0;
        ASSERT_EQ(::waitpid(*pid, &status, WUNTRACED), *pid);
        pids.push_back(*pid);
    }
    // They end one after the other before the set looks; the children's list has them in another order.
    const std::vector<std::size_t> order{2, 0, 3, 1};
    for (const auto index : order) {
        ::kill(pids[index], SIGKILL);
        siginfo_t info{};
        ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pids[index]), &info, WEXITED | WNOWAIT), 0);
    }
    const auto events = set->wait(limit());
    ASSERT_TRUE(events);
    std::vector<std::size_t> seen;
    for (const auto& rank_exit : events->exits) {
        seen.push_back(rank_exit.index);
    }
    EXPECT_EQ(seen, order);
}

} // namespace

} // namespace rdma_nccl::run
