// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/step_processes.h"

#include "tests/unit/tree.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using test::Tree;

TEST(Ancestors, FindsTheStepDaemonAbove) {
    Tree tree;
    tree.file("/proc/40/stat", "40 (rdma-nccl) S 30 40 40 0").file("/proc/40/comm", "rdma-nccl\n");
    tree.file("/proc/30/stat", "30 (a) S 9 (b) S 20 30 30 0").file("/proc/30/comm", "a) S 9 (b\n");
    tree.file("/proc/20/stat", "20 (slurmstepd) S 1 20 20 0").file("/proc/20/comm", "slurmstepd\n");
    tree.file("/proc/1/stat", "1 (systemd) S 0 1 1 0").file("/proc/1/comm", "systemd\n");
    EXPECT_EQ(ancestors_of(tree.root(), 40), (std::vector<pid_t>{30, 20, 1}));
    EXPECT_EQ(step_daemon_above(tree.root(), 40), 20);
    EXPECT_EQ(step_daemon_above(tree.root(), 20), std::nullopt) << "it is above, or it is none";
}

TEST(Ancestors, HiddenAndOddProcesses) {
    Tree tree;
    tree.file("/proc/40/stat", "40 (rdma-nccl) S 30 40 40 0");
    EXPECT_EQ(ancestors_of(tree.root(), 40), std::vector<pid_t>{30}) << "30 is hidden";
    tree.file("/proc/30/stat", "30 (x) S 40 1 1 0");
    EXPECT_EQ(ancestors_of(tree.root(), 40).size(), 2U) << "no endless circle";
    tree.file("/proc/30/stat", "30 (x) S").file("/proc/50/stat", "50 (x) S -7 1");
    EXPECT_EQ(ancestors_of(tree.root(), 40), std::vector<pid_t>{30});
    EXPECT_TRUE(ancestors_of(tree.root(), 50).empty());
    EXPECT_EQ(step_daemon_above(tree.root(), 40), std::nullopt);
}

TEST(Ancestors, ProcessOfAThread) {
    Tree tree;
    tree.file("/proc/41/status",
              "Name:\tTgid:\\n7\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t40\nNgid:\t0\nPid:\t41\n");
    tree.file("/proc/42/status", "Name:\tx\n").file("/proc/43/status", "Tgid:\tmany\n");
    EXPECT_EQ(process_of(tree.root(), 41), 40);
    for (const pid_t none : {42, 43, 44}) {
        EXPECT_EQ(process_of(tree.root(), none), std::nullopt);
    }
    const auto live = *SysRoot::open("/");
    EXPECT_EQ(process_of(live, ::getpid()), ::getpid());
    std::optional<pid_t> of_thread;
    std::thread([&] { of_thread = process_of(live, static_cast<pid_t>(::syscall(SYS_gettid))); }).join();
    EXPECT_EQ(of_thread, ::getpid());
}

TEST(Ancestors, OfThisProcess) {
    EXPECT_EQ(ancestors_of(*SysRoot::open("/"), ::getpid()).front(), ::getppid());
}

} // namespace

} // namespace rdma_nccl
