// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/run/job.h"

#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

/// The second of two nodes, two ranks each, two programs.
class RunDry : public testing::Test {
protected:
    RunDry() {
        plan_.ranks_per_node = {2, "-n"};
        plan_.nodes = {2, "--nnodes"};
        plan_.node_rank = {1, "--node-rank"};
        plan_.master_addr = {"10.0.0.1", "--master-addr"};
        plan_.master_port = {12000, "torchrun's default"};
        plan_.run_id = "7.3";
        placed_.placement.ranks.resize(2);
        placed_.placement.ranks[0].cpus = CpuSet::range(0, 3);
        placed_.placement.ranks[0].source = CpuSource::Shared;
        placed_.placement.ranks[0].memory_node = 0;
        placed_.placement.ranks[0].cores = 4;
        placed_.placement.ranks[1] = placed_.placement.ranks[0];
        placed_.placement.ranks[1].cpus = CpuSet::range(4, 7);
        placed_.placement.ranks[1].memory_node = 1;
        placed_.binds_cpus = placed_.binds_memory = true;
        worker_.placed = &placed_;
    }

    [[nodiscard]] Job job(const std::vector<RankDeviceNames>& devices) const {
        return {plan_, commands_, worker_, environment_, options_, root_, "n02", [devices] { return devices; }};
    }
    [[nodiscard]] Job job() const {
        return job({{"4", "0000:53:00.0", "GPU-a", "/dev/nvidia4", {"mlx5_1:1", "mlx5_2:1"}},
                    {"5", "0000:54:00.0", "", "", {}}});
    }

    WorldPlan plan_;
    NodePlacement placed_;
    WorkerSettings worker_;
    Options options_;
    SysRoot root_ = *SysRoot::open("/");
    Environment environment_{std::vector<std::string>{"OMP_NUM_THREADS=4", "HOME=/h"}};
    std::vector<Command> commands_{{"/bin/a", {"a", "x y", "it's", ""}}, {"/bin/b", {"b", "z\x1b\n"}}};
};

TEST_F(RunDry, Text) {
    EXPECT_EQ(dry_run_text(job()),
              R"(world    4 ranks on 2 nodes (--nnodes)
here     n02, node rank 1 (--node-rank), 2 ranks (-n)
meet at  10.0.0.1 (--master-addr), port 12000 (torchrun's default)

RANK  LOCAL  GPU  PCI           UUID   HCAS               CPUS  MEMORY  COMMAND
2     0      4    0000:53:00.0  GPU-a  mlx5_1:1,mlx5_2:1  0-3   node 0  /bin/a 'x y' 'it'\''s' ''
3     1      5    0000:54:00.0  -      -                  4-7   node 1  /bin/b 'z??'

Variables of every rank
  WORLD_SIZE=4
  LOCAL_WORLD_SIZE=2
  GROUP_RANK=1
  GROUP_WORLD_SIZE=2
  ROLE_NAME=default
  ROLE_WORLD_SIZE=4
  NODE_RANK=1
  NNODES=2
  MASTER_ADDR=10.0.0.1
  MASTER_PORT=12000
  TORCHELASTIC_RESTART_COUNT=0
  TORCHELASTIC_MAX_RESTARTS=0
  TORCHELASTIC_RUN_ID=7.3
  TORCHELASTIC_USE_AGENT_STORE=False
  TORCH_NCCL_ASYNC_ERROR_HANDLING=1

Of each rank
  RANK  LOCAL_RANK  ROLE_RANK  JAX_LOCAL_DEVICE_IDS
  2     0           2          0
  3     1           3          1
)");
}

TEST_F(RunDry, OneProgramIsSaidOnce) {
    commands_ = std::vector(2, Command{"/bin/a", {"a"}});
    const auto text = dry_run_text(job());
    EXPECT_NE(text.find("\nEvery rank runs\n  /bin/a\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("COMMAND"), std::string::npos) << text;
}

TEST_F(RunDry, Json) {
    const auto json = *Json::parse(dry_run_json(job()));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["world_size"], 4);
    EXPECT_EQ(json["variables"]["MASTER_ADDR"], "10.0.0.1");
    ASSERT_EQ(json["ranks"].size(), 2U);
    const auto& rank = json["ranks"][1];
    EXPECT_EQ(rank["rank"], 3);
    EXPECT_EQ(rank["file"], "/bin/b");
    EXPECT_EQ(rank["arguments"], Json::array({"b", "z\x1b\n"}));
    EXPECT_EQ(rank["gpu_pci"], "0000:54:00.0");
    EXPECT_EQ(rank["cpus"], "4-7");
    EXPECT_EQ(rank["memory_node"], 1);
    EXPECT_EQ(rank["variables"]["RANK"], "3");
    EXPECT_FALSE(rank["variables"].contains("WORLD_SIZE")) << "that one is all ranks'";
}

TEST_F(RunDry, NothingKnown) {
    worker_.placed = nullptr;
    const auto bare = job({});
    EXPECT_NE(dry_run_text(bare).find("\n2     0      -    -    -     -     -     -       /bin/a"), std::string::npos)
        << dry_run_text(bare);
    EXPECT_TRUE(Json::parse(dry_run_json(bare))->at("ranks")[0]["memory_node"].is_null());
}

} // namespace

} // namespace rdma_nccl::run
