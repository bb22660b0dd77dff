// SPDX-License-Identifier: Apache-2.0
#include "lib/slurm/job_hosts.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using Names = std::vector<std::string>;
using Counts = std::vector<unsigned>;

Result<JobHosts> hosts_of(std::vector<std::string> variables) {
    return job_hosts(Environment(variables));
}

TEST(JobHosts, OfABatchScriptAreThoseOfItsJob) {
    const auto hosts =
        hosts_of({"SLURM_JOB_NODELIST=n[1-3]", "SLURM_NTASKS=5", "SLURM_TASKS_PER_NODE=2(x2),1"}).value();
    EXPECT_EQ(hosts.nodes, (Names{"n1", "n2", "n3"}));
    EXPECT_EQ(hosts.tasks, (Counts{2, 2, 1}));
    for (const auto* const by : {"NODE", "GPU", "SOCKET", "CORE"}) {
        EXPECT_EQ(hosts_of({"SLURM_JOB_NODELIST=n[1-2]", "SLURM_NTASKS_PER_" + std::string(by) + "=1",
                            "SLURM_TASKS_PER_NODE=4(x2)"})
                      ->tasks,
                  (Counts{4, 4}))
            << by;
    }
}

TEST(JobHosts, WhereNoTasksWereAskedForSlurmCountsCpus) {
    EXPECT_EQ(hosts_of({"SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=128(x2)"})->tasks, (Counts{1, 1}));
    EXPECT_EQ(hosts_of({"SLURM_JOB_NODELIST=n[1-2]", "SLURM_NTASKS=2"})->tasks, (Counts{1, 1}));
}

TEST(JobHosts, OfATaskAreThoseOfItsStep) {
    const auto hosts = hosts_of({"SLURM_JOB_NODELIST=n[1-4]", "SLURM_TASKS_PER_NODE=1(x4)", "SLURM_STEP_ID=0",
                                 "SLURM_STEP_NODELIST=n[2-3]", "SLURM_STEP_TASKS_PER_NODE=8(x2)"})
                           .value();
    EXPECT_EQ(hosts.nodes, (Names{"n2", "n3"}));
    EXPECT_EQ(hosts.tasks, (Counts{8, 8}));
}

TEST(JobHosts, OfAnInteractiveStepAreThoseOfItsJob) {
    const auto hosts = hosts_of({"SLURM_JOB_NODELIST=n[1-4]", "SLURM_NTASKS=4", "SLURM_TASKS_PER_NODE=1(x4)",
                                 "SLURM_STEP_ID=4294967290", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_TASKS_PER_NODE=1"})
                           .value();
    EXPECT_EQ(hosts.nodes, (Names{"n1", "n2", "n3", "n4"}));
    EXPECT_EQ(hosts.tasks, (Counts{1, 1, 1, 1}));
}

TEST(JobHosts, WhatCannotBeReadIsAnError) {
    const auto error = [](std::vector<std::string> variables) {
        const auto hosts = hosts_of(std::move(variables));
        return hosts ? "none" : hosts.error().message;
    };
    EXPECT_NE(error({}).find("there is no job here"), std::string::npos);
    EXPECT_NE(error({"SLURM_JOB_NODELIST=n[1-"}).find("SLURM_JOB_NODELIST: "), std::string::npos);
    EXPECT_NE(error({"SLURM_JOB_NODELIST=n1", "SLURM_HET_SIZE=2"}).find("heterogeneous"), std::string::npos);
    for (const auto* const counts : {"2(x3)", "1,0", "x"}) {
        EXPECT_NE(error({"SLURM_JOB_NODELIST=n[1-2]", "SLURM_NTASKS=2", "SLURM_TASKS_PER_NODE=" + std::string(counts)})
                      .find("does not fit SLURM_JOB_NODELIST=n[1-2]"),
                  std::string::npos)
            << counts;
    }
}

} // namespace
} // namespace rdma_nccl
