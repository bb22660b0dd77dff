// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job.h"

#include "lib/sys/sysroot.h"
#include "tools/common/print.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

TEST(RunJob, FailureInOneLine) {
    WorldPlan plan;
    plan.ranks_per_node.value = 8;
    plan.nodes.value = 2;
    plan.node_rank.value = 1;
    const std::vector commands(8, Command{"/opt/train", {"train", "--lr", "1 2"}});
    const Environment environment;
    const WorkerSettings worker;
    const Options options;
    const auto root = SysRoot::open("/");
    ASSERT_TRUE(root);
    const Job job{plan, commands, worker, environment, options, *root, "n01", {}, "", ""};
    EXPECT_EQ(describe_failure(failure_of(job, {3, 1234, SIGKILL, {}}, 0), 7),
              "rank 11 (local 3) on n01, pid 1234: killed by signal 9 (Killed); ending the other 7 ranks");
    EXPECT_EQ(describe_failure(failure_of(job, {0, 12, 7 << 8, {}}, 0), 1),
              "rank 8 (local 0) on n01, pid 12: exited with code 7; ending the other 1 rank");
    EXPECT_EQ(describe_failure(failure_of(job, {0, 12, SIGSEGV | 0x80, {}}, 0), 0),
              "rank 8 (local 0) on n01, pid 12: killed by signal 11 (Segmentation fault), core dumped");
    const auto not_executed = failure_of(job, {0, 12, 126 << 8, EACCES}, 2);
    EXPECT_EQ(not_executed.code, 126);
    EXPECT_EQ(not_executed.attempt, 2U);
    EXPECT_EQ(describe_failure(not_executed, 0),
              "rank 8 (local 0) on n01, pid 12: cannot execute /opt/train --lr '1 2': Permission denied");
    const auto earlier = std::chrono::steady_clock::now() - std::chrono::seconds(10);
    EXPECT_LT(failure_of(job, {0, 12, SIGTERM, {}, earlier}, 0).time_us, wall_time_us() - 9000000)
        << "the time of the end, however long it waited for the launcher's own copy of the signal";
}

} // namespace

} // namespace rdma_nccl::run
