// SPDX-License-Identifier: Apache-2.0
#include "tools/measure_world.h"

#include <gtest/gtest.h>
#include <vector>

namespace rdma_nccl {
namespace {

Result<MeasureWorld> world_from(const std::vector<std::string>& entries) {
    return measure_world(Environment(entries), "n02", "pairs");
}

const std::vector<std::string> meeting = {"MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"};

std::vector<std::string> with_meeting(std::vector<std::string> entries) {
    entries.insert(entries.end(), meeting.begin(), meeting.end());
    return entries;
}

TEST(MeasureWorld, AloneWithoutAnything) {
    const auto world = world_from({});
    ASSERT_TRUE(world);
    EXPECT_EQ(world->members, 1U);
    EXPECT_FALSE(world->head);
    EXPECT_EQ(world->node, "n02");
    EXPECT_EQ(world->secret.size(), 32U);
}

TEST(MeasureWorld, Ranks) {
    const auto world = world_from(with_meeting({"RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "NODE_RANK=1", "NNODES=2"}));
    ASSERT_TRUE(world);
    EXPECT_EQ(world->member, 9U);
    EXPECT_EQ(world->members, 16U);
    EXPECT_EQ(world->local, 1U);
    EXPECT_TRUE(world->ranks);
    EXPECT_EQ(world->head->text(), "10.0.0.1");
    EXPECT_EQ(world->port, 29500);
}

TEST(MeasureWorld, Nodes) {
    const auto world =
        world_from(with_meeting({"NODE_RANK=1", "NNODES=2", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"}));
    ASSERT_TRUE(world);
    EXPECT_EQ(world->member, 1U);
    EXPECT_EQ(world->members, 2U);
    EXPECT_FALSE(world->ranks);
}

TEST(MeasureWorld, SeveralTasksWhereNodesAreCounted) {
    const auto world = world_from(
        with_meeting({"NODE_RANK=1", "NNODES=2", "SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=4", "SLURM_LOCALID=1"}));
    ASSERT_TRUE(world);
    EXPECT_EQ(world->member, 3U);
    EXPECT_EQ(world->members, 4U);
    EXPECT_EQ(world->local, 1U);
}

TEST(MeasureWorld, StepWithoutThePlugin) {
    const auto world = world_from({"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"});
    ASSERT_FALSE(world);
    EXPECT_EQ(world.error().message,
              "this step does not know its head node (MASTER_ADDR is not set); start it with: srun "
              "--rdma-nccl ... rdma-nccl pairs");
    EXPECT_TRUE(world_from({"SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"}));
}

TEST(MeasureWorld, ValuesThatCannotBe) {
    const auto port = world_from({"MASTER_ADDR=10.0.0.1", "MASTER_PORT=x", "RANK=0", "WORLD_SIZE=2"});
    ASSERT_FALSE(port);
    EXPECT_EQ(port.error().message, "MASTER_PORT=x is no port; give the same, 1 to 65535, to all");
    const auto name = world_from({"MASTER_ADDR=no.such.host.invalid", "MASTER_PORT=1", "RANK=0", "WORLD_SIZE=2"});
    ASSERT_FALSE(name);
    EXPECT_NE(name.error().message.find("MASTER_ADDR=no.such.host.invalid has no address here"), std::string::npos);
    EXPECT_EQ(world_from(with_meeting({"RANK=2", "WORLD_SIZE=2"}))->members, 1U) << "a rank beyond the world is none";
}

} // namespace
} // namespace rdma_nccl
