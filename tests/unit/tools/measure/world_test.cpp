// SPDX-License-Identifier: Apache-2.0
#include "tools/measure/channel.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace rdma_nccl {
namespace {

Result<measure::World> world_from(const std::vector<std::string>& entries) {
    return measure::find_world(Environment(entries), "n02", "pairs", KeyPurpose::Pairs);
}

const std::string token(64, '7');
const std::vector<std::string> meeting = {"MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500", "RDMA_NCCL_TOKEN=" + token};

std::vector<std::string> with_meeting(std::vector<std::string> entries) {
    entries.insert(entries.end(), meeting.begin(), meeting.end());
    return entries;
}

TEST(FindWorld, AloneWithoutAnything) {
    const auto world = world_from({});
    ASSERT_TRUE(world);
    EXPECT_EQ(world->workers, 1U);
    EXPECT_FALSE(world->coordinator);
    EXPECT_EQ(world->node, "n02");
    EXPECT_FALSE(world->key == Key());
    EXPECT_FALSE(world->key == world_from({})->key) << "nobody else's";
}

TEST(FindWorld, TheKeyIsForOneCommandAlone) {
    const auto environment = with_meeting({"RANK=0", "WORLD_SIZE=2"});
    const auto pairs = world_from(environment);
    const auto bench = measure::find_world(Environment(environment), "n01", "bench", KeyPurpose::Bench);
    ASSERT_TRUE(pairs && bench);
    EXPECT_EQ(pairs->key, derive_key(*parse_key(token), KeyPurpose::Pairs));
    EXPECT_EQ(bench->key, derive_key(*parse_key(token), KeyPurpose::Bench));
    EXPECT_FALSE(pairs->key == bench->key);
}

TEST(FindWorld, SeveralWithoutAKey) {
    for (const auto* text : {"", "RDMA_NCCL_TOKEN=0123456789abcdef0123456789abcdef"}) {
        const auto world = world_from({"MASTER_ADDR=10.0.0.1", "MASTER_PORT=1", "RANK=1", "WORLD_SIZE=2", text});
        ASSERT_FALSE(world);
        EXPECT_NE(world.error().message.find("openssl rand -hex 32"), std::string::npos) << world.error().message;
    }
    EXPECT_TRUE(world_from({"MASTER_ADDR=10.0.0.1", "MASTER_PORT=1", "RANK=0", "WORLD_SIZE=1"})) << "alone";
}

TEST(FindWorld, Ranks) {
    const auto world = world_from(with_meeting({"RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "NODE_RANK=1", "NNODES=2"}));
    ASSERT_TRUE(world);
    EXPECT_EQ(world->worker, 9U);
    EXPECT_EQ(world->workers, 16U);
    EXPECT_EQ(world->local, 1U);
    EXPECT_TRUE(world->ranks);
    EXPECT_EQ(world->coordinator->text(), "10.0.0.1");
    EXPECT_EQ(world->port, 29500);
}

TEST(FindWorld, Nodes) {
    const auto world =
        world_from(with_meeting({"NODE_RANK=1", "NNODES=2", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"}));
    ASSERT_TRUE(world);
    EXPECT_EQ(world->worker, 1U);
    EXPECT_EQ(world->workers, 2U);
    EXPECT_FALSE(world->ranks);
}

TEST(FindWorld, TheNodeOfEachWorker) {
    auto step =
        with_meeting({"RANK=0", "WORLD_SIZE=4", "SLURM_STEP_NODELIST=n[01-02]", "SLURM_STEP_TASKS_PER_NODE=3,1"});
    const auto tasks = world_from(step);
    ASSERT_TRUE(tasks);
    EXPECT_EQ(tasks->nodes, (std::vector<std::string>{"n01", "n01", "n01", "n02"}));
    EXPECT_EQ(tasks->name_of(3), "n02");
    EXPECT_EQ(tasks->name_of(4), "member 4");
    step.emplace_back("SLURM_DISTRIBUTION=cyclic");
    EXPECT_EQ(world_from(step)->nodes, std::vector<std::string>()) << "tasks alternate, so counts do not tell";
    step.back() = "SLURM_DISTRIBUTION=arbitrary";
    step.emplace_back("SLURM_ARBITRARY_NODELIST=n02,n01,n01,n01");
    EXPECT_EQ(world_from(step)->name_of(0), "n02");
    step.emplace_back("RDMA_NCCL_NODE_ORDER=topology");
    EXPECT_EQ(world_from(step)->name_of(0), "n02") << "not set by us";
    step.emplace_back("RDMA_NCCL_SET=" + marker_entry("RDMA_NCCL_NODE_ORDER", "topology"));
    EXPECT_EQ(world_from(step)->name_of(0), "member 0") << "Slurm's lists do not tell";
    std::ranges::replace(step, "SLURM_STEP_TASKS_PER_NODE=3,1", "SLURM_STEP_TASKS_PER_NODE=2(x2)");
    EXPECT_EQ(world_from(step)->name_of(1), "members 0-1") << "of one node";
    EXPECT_EQ(world_from(step)->name_of(2), "members 2-3");
    const auto launchers = world_from(with_meeting({"NODE_RANK=0", "NNODES=2", "SLURM_STEP_NODELIST=n[01-02]"}));
    EXPECT_EQ(launchers->nodes, (std::vector<std::string>{"n01", "n02"}));
}

TEST(FindWorld, SeveralTasksWhereNodesAreCounted) {
    const auto world = world_from(
        with_meeting({"NODE_RANK=1", "NNODES=2", "SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=4", "SLURM_LOCALID=1"}));
    ASSERT_TRUE(world);
    EXPECT_EQ(world->worker, 3U);
    EXPECT_EQ(world->workers, 4U);
    EXPECT_EQ(world->local, 1U);
}

TEST(FindWorld, StepWithoutThePlugin) {
    const auto world = world_from({"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"});
    ASSERT_FALSE(world);
    EXPECT_EQ(world.error().message,
              "this step does not know its head node (MASTER_ADDR is not set); start it with: srun "
              "--rdma-nccl ... rdma-nccl pairs");
    EXPECT_TRUE(world_from({"SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"}));
}

TEST(FindWorld, ValuesThatCannotBe) {
    const auto port = world_from({"MASTER_ADDR=10.0.0.1", "MASTER_PORT=x", "RANK=0", "WORLD_SIZE=2", meeting.back()});
    ASSERT_FALSE(port);
    EXPECT_EQ(port.error().message, "MASTER_PORT=x is no port; give the same, 1 to 65535, to all");
    const auto name =
        world_from({"MASTER_ADDR=no.such.host.invalid", "MASTER_PORT=1", "RANK=0", "WORLD_SIZE=2", meeting.back()});
    ASSERT_FALSE(name);
    EXPECT_NE(name.error().message.find("MASTER_ADDR=no.such.host.invalid has no address here"), std::string::npos);
    EXPECT_EQ(world_from(with_meeting({"RANK=2", "WORLD_SIZE=2"}))->workers, 1U) << "a rank beyond the world is none";
}

} // namespace
} // namespace rdma_nccl
