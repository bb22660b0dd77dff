// SPDX-License-Identifier: Apache-2.0
#include "tools/common/job_nodes.h"

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

} // namespace
} // namespace rdma_nccl
