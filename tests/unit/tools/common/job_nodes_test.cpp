// SPDX-License-Identifier: Apache-2.0
#include "tools/common/job_nodes.h"

#include "lib/base/format.h"
#include "tests/unit/tree.h"
#include "tools/common/scontrol.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using Texts = std::vector<std::string>;

TEST(EnvironmentOutsideOfJob, HasOfSlurmsVariablesOnlyTheWayToTheCluster) {
    const auto entries = [](const Texts& given) { return environment_outside_of_job(Environment(given)); };
    EXPECT_EQ(entries({"A=1", "SLURM_CONF=/c", "SLURM_CONF_SERVER=ctl", "SLURM_CPU_BIND=cores", "SLURM_NTASKS=8",
                       "SLURM_SACK_SOCKET=/s", "SRUN_CPUS_PER_TASK=3", "RDMA_NCCL_ENABLE=on"}),
              (Texts{"RDMA_NCCL_ENABLE=off", "A=1", "SLURM_CONF=/c", "SLURM_CONF_SERVER=ctl", "SLURM_SACK_SOCKET=/s"}));
    EXPECT_EQ(entries({"SLURM_CLUSTERS=b"}), (Texts{"RDMA_NCCL_ENABLE=off", "SLURM_CLUSTERS=b"}));
    EXPECT_EQ(entries({"SLURM_CLUSTERS=b", "SLURM_JOB_ID=1", "SLURM_WORKING_CLUSTER=a:h:6817:1"}),
              (Texts{"RDMA_NCCL_ENABLE=off", "SLURM_WORKING_CLUSTER=a:h:6817:1"}));
}

TEST(JobOptions, OfAComponentByTheLeader) {
    EXPECT_EQ(job_options(12, "12 12\n"), "--jobid=12");
    EXPECT_EQ(job_options(13, "12 12+0\n13 12+1\n"), "--jobid=12 --het-group=1");
    EXPECT_EQ(job_options(13, "13 10_3\n"), "--jobid=13") << "of an array";
    EXPECT_EQ(job_options(13, ""), "--jobid=13");
}

TEST(NodeReports, SayWhyNodesAreSilent) {
    constexpr std::chrono::seconds limit(310);
    EXPECT_EQ((NodeReports{{}, true, 2}.why_silent(limit)), "interrupted");
    EXPECT_EQ((NodeReports{{}, false, 2}.why_silent(limit)), "interrupted");
    EXPECT_EQ((NodeReports{{}, false, 0}.why_silent(limit)), "no answer within 310 s");
    EXPECT_EQ((NodeReports{{}, true, 0}.why_silent(limit)), "is rdma-nccl installed there?");
}

TEST(AskTopology, OfTheClusterThatTheUserNamesOutsideOfAJob) {
    test::Tree tree;
    tree.file("/scontrol", "#!/bin/sh\necho \"$*\"\n");
    std::filesystem::permissions(tree.at("/scontrol"), std::filesystem::perms::owner_all);
    const std::string before = ::getenv("PATH");
    ::setenv("PATH", format_text("{}:{}", tree.path().string(), before).c_str(), 1);
    const auto asked = [](const Texts& given) { return ask_topology(Environment(given)).value_or("failed"); };
    EXPECT_EQ(asked({"SLURM_CLUSTERS=b"}), "show topology --clusters=b\n");
    EXPECT_EQ(asked({"SLURM_CLUSTERS=b", "SLURM_JOB_ID=1"}), "show topology\n");
    EXPECT_EQ(asked({}), "show topology\n");
    ::setenv("PATH", before.c_str(), 1);
}

} // namespace
} // namespace rdma_nccl
