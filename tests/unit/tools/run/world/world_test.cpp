// SPDX-License-Identifier: Apache-2.0
#include "tools/run/world/world.h"

#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

using Entries = std::vector<std::string>;

/// Answers of a node with two GPUs and six CPUs.
WorldInquiry answers(std::size_t gpus = 2) {
    WorldInquiry inquiry;
    inquiry.visible_gpus = [gpus] { return VisibleGpus{Entries(gpus, "x"), "the test", ""}; };
    inquiry.allowed_cpus = [] { return 6U; };
    inquiry.free_port = []() -> Result<std::uint16_t> { return 4711; };
    inquiry.head_address = [](const Step& step) -> Result<std::string> { return step.nodes.front(); };
    inquiry.step_port = [](const Step& step) -> Result<std::uint16_t> {
        return step.reserved_ports.empty() ? 20000 : step.reserved_ports.front();
    };
    inquiry.random_id = [] { return "random"; };
    return inquiry;
}

/// What is typed in front of the program.
Options typed(std::vector<std::string> words, const Entries& entries = {}) {
    words.emplace_back("./train");
    return parse_options(words, Environment(entries)).value();
}

Result<WorldPlan> plan(const Options& options, const Entries& entries, const WorldInquiry& inquiry = answers()) {
    return plan_world(options, Environment(entries), inquiry);
}

std::string error_of(const Options& options, const Entries& entries, const WorldInquiry& inquiry = answers()) {
    const auto planned = plan(options, entries, inquiry);
    return planned ? "no error" : planned.error().message;
}

Entries step_of_two() {
    return {"SLURM_JOB_ID=7",
            "SLURM_STEP_ID=3",
            "SLURM_STEP_NODELIST=n[1-2]",
            "SLURM_STEP_NUM_NODES=2",
            "SLURM_STEP_TASKS_PER_NODE=1(x2)",
            "SLURM_NODEID=1",
            "SLURM_LOCALID=0",
            "SLURM_STEP_RESV_PORTS=12000-12003"};
}

Entries pet_of_two() {
    return {"PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=pethost", "PET_MASTER_PORT=3000",
            "PET_NPROC_PER_NODE=3"};
}

Entries variables_of_two() {
    return {"NNODES=2", "NODE_RANK=0", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=4000"};
}

Entries operator+(Entries a, const Entries& b) {
    // The first of equal names wins.
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

TEST(RunWorld, AloneByDefault) {
    const auto world = plan({}, {});
    ASSERT_TRUE(world);
    EXPECT_EQ(world->ranks_per_node.value, 2U);
    EXPECT_EQ(world->ranks_per_node.source, "the test");
    EXPECT_EQ(world->nodes.value, 1U);
    EXPECT_EQ(world->node_rank.value, 0U);
    EXPECT_EQ(world->master_addr.value, "127.0.0.1");
    EXPECT_EQ(world->master_port.value, 4711);
    EXPECT_EQ(world->run_id, "random");
    EXPECT_TRUE(world->warnings.empty());
}

TEST(RunWorld, UnderMpirunASignpost) {
    const auto world = plan({}, {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"});
    ASSERT_TRUE(world);
    ASSERT_EQ(world->notes.size(), 1U);
    EXPECT_EQ(world->notes[0].find("mpirun started 2 ranks"), 0U);
}

TEST(RunWorld, Step) {
    const auto world = plan({}, step_of_two());
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->nodes.value, 2U);
    EXPECT_EQ(world->nodes.source, "SLURM_STEP_NUM_NODES");
    EXPECT_EQ(world->node_rank.value, 1U);
    EXPECT_EQ(world->node_rank.source, "SLURM_NODEID");
    EXPECT_EQ(world->master_addr.value, "n1");
    EXPECT_EQ(world->master_port.value, 12000);
    EXPECT_EQ(world->run_id, "7.3");
    EXPECT_EQ(world->world_size(), 4U);
    EXPECT_EQ(world->first_rank(), 2U);
}

TEST(RunWorld, VariablesBeforeTheStep) {
    const auto world = plan({}, variables_of_two() + step_of_two());
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->nodes.source, "NNODES");
    EXPECT_EQ(world->node_rank.value, 0U);
    EXPECT_EQ(world->node_rank.source, "NODE_RANK");
    EXPECT_EQ(world->master_addr.value, "10.0.0.1");
    EXPECT_EQ(world->master_port.value, 4000);
    EXPECT_EQ(world->master_port.source, "MASTER_PORT");
}

TEST(RunWorld, PetBeforeVariables) {
    const auto world = plan({}, pet_of_two() + variables_of_two() + step_of_two());
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->nodes.source, "PET_NNODES");
    EXPECT_EQ(world->node_rank.value, 1U);
    EXPECT_EQ(world->master_addr.value, "pethost");
    EXPECT_EQ(world->master_port.value, 3000);
    EXPECT_EQ(world->ranks_per_node.value, 3U);
    EXPECT_EQ(world->ranks_per_node.source, "PET_NPROC_PER_NODE");
}

TEST(RunWorld, OptionsBeforeAll) {
    const auto options = typed({"-n5", "--nnodes=3", "--node-rank=2", "--master-addr=[fd00::1]", "--master-port=5000"});
    const auto world = plan(options, pet_of_two() + variables_of_two() + step_of_two());
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->ranks_per_node.value, 5U);
    EXPECT_EQ(world->nodes.value, 3U);
    EXPECT_EQ(world->nodes.source, "--nnodes");
    EXPECT_EQ(world->node_rank.value, 2U);
    EXPECT_EQ(world->master_addr.value, "fd00::1");
    EXPECT_EQ(world->master_port.value, 5000);
}

TEST(RunWorld, EmptyVariablesCountAsUnset) {
    const auto world = plan({}, Entries{"PET_NNODES=", "NNODES=", "MASTER_ADDR=", "MASTER_PORT=", "PET_NODE_RANK="});
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->nodes.value, 1U);
    EXPECT_EQ(world->master_port.value, 4711);
}

TEST(RunWorld, OneNodeByOptionIsAWorldOfItsOwn) {
    const auto options = typed({"--nnodes=1"});
    const auto world = plan(options, pet_of_two() + variables_of_two() + step_of_two());
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->node_rank.value, 0U);
    EXPECT_EQ(world->master_addr.value, "127.0.0.1");
    EXPECT_EQ(world->master_port.value, 4711);
    EXPECT_EQ(world->ranks_per_node.value, 3U) << "PET_NPROC_PER_NODE is of this node";
}

TEST(RunWorld, UsersPortOnOneNode) {
    EXPECT_EQ(plan({}, {"MASTER_PORT=29500"})->master_port.value, 29500);
    EXPECT_EQ(plan(typed({"--master-port=0"}), {"MASTER_PORT=29500"})->master_port.value, 4711);
}

TEST(RunWorld, FixedNumberWrittenAsRange) {
    EXPECT_TRUE(plan(typed({"--nnodes=1:1"}), {}));
    EXPECT_NE(error_of(typed({"--nnodes=1:2"}), {}).find("--nnodes \"1:2\": elasticity is not offered"),
              std::string::npos);
    // torchrun refuses these too (parse_min_max_nnodes(), and the assertion behind it).
    for (const char* const text : {"1:1:60", "1:2:60", "1:", ":1", "2:1", "0:1", "1:x", "x:1", "1:1:"}) {
        const auto error = error_of(typed({std::string("--nnodes=") + text}), {});
        EXPECT_NE(error.find("a number of nodes is wanted"), std::string::npos) << text << ": " << error;
    }
}

TEST(RunWorld, RankCounts) {
    EXPECT_EQ(plan(typed({"-n", "cpu"}), {})->ranks_per_node.value, 6U);
    EXPECT_EQ(plan(typed({"-n", "auto"}), {})->ranks_per_node.value, 2U);
    EXPECT_EQ(plan(typed({"-n", "auto"}), {}, answers(0))->ranks_per_node.value, 6U);
    EXPECT_EQ(plan(typed({"-n", "gpu"}), {})->ranks_per_node.value, 2U);
    EXPECT_NE(error_of(typed({"-n", "gpu"}), {}, answers(0)).find("-n N"), std::string::npos);
    EXPECT_NE(error_of({}, {}, answers(0)).find("no GPU is visible"), std::string::npos);
    for (const char* const text : {"0", "-1", "x", "", "65537", "1.5", "4294967297", " 2", "xpu"}) {
        EXPECT_NE(error_of(typed({"-n", text}), {}).find("--nproc-per-node"), std::string::npos) << text;
    }
    EXPECT_NE(error_of({}, {"PET_NPROC_PER_NODE=x"}).find("PET_NPROC_PER_NODE \"x\""), std::string::npos);
}

TEST(RunWorld, GpusAreNotCountedWhenTheNumberIsGiven) {
    auto inquiry = answers();
    inquiry.visible_gpus = nullptr; // would throw
    EXPECT_EQ(plan(typed({"-n3"}), {}, inquiry)->ranks_per_node.value, 3U);
}

TEST(RunWorld, GpuNoteBecomesAWarning) {
    auto inquiry = answers();
    inquiry.visible_gpus = [] { return VisibleGpus{{"0"}, "CUDA_VISIBLE_DEVICES=\"0,x\"", "a note"}; };
    const auto world = plan({}, {}, inquiry);
    ASSERT_TRUE(world);
    ASSERT_EQ(world->warnings.size(), 1U);
    EXPECT_NE(world->warnings[0].find("a note"), std::string::npos);
}

TEST(RunWorld, BadValues) {
    EXPECT_NE(error_of({}, {"NNODES=x"}).find("NNODES \"x\""), std::string::npos);
    EXPECT_NE(error_of({}, {"NNODES=0"}).find("NNODES \"0\""), std::string::npos);
    EXPECT_NE(error_of({}, {"NNODES=2000000000"}).find("NNODES"), std::string::npos) << "more ranks than an int holds";
    EXPECT_NE(error_of({}, {"NNODES=2", "NODE_RANK=2"}).find("NODE_RANK \"2\""), std::string::npos);
    EXPECT_NE(error_of({}, {"NODE_RANK=1"}).find("NODE_RANK \"1\""), std::string::npos);
    EXPECT_NE(error_of({}, {"NNODES=2", "MASTER_ADDR=h"}).find("--node-rank"), std::string::npos);
    EXPECT_NE(error_of({}, {"NNODES=2", "NODE_RANK=0"}).find("--master-addr"), std::string::npos);
    for (const char* const text : {"x", "65536", "-1", "1 "}) {
        EXPECT_NE(error_of({}, {std::string("MASTER_PORT=") + text}).find("MASTER_PORT"), std::string::npos) << text;
    }
    for (const char* const text : {"a b", "[]", "h/x", "[a"}) {
        EXPECT_NE(error_of({}, {std::string("MASTER_ADDR=") + text}).find("MASTER_ADDR"), std::string::npos) << text;
    }
    EXPECT_NE(error_of({}, Entries{"MASTER_PORT=0"} + variables_of_two()).find("MASTER_PORT \"0\""), std::string::npos);
}

TEST(RunWorld, SeveralNodesOutsideSlurm) {
    const auto world = plan({}, {"PET_NNODES=2", "PET_NODE_RANK=0", "PET_MASTER_ADDR=h"});
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->master_port.value, 29500);
    EXPECT_EQ(world->run_id, "none") << "a random one would differ between nodes";
}

TEST(RunWorld, RunIdFromTheRendezvousId) {
    EXPECT_EQ(plan(typed({}, {"PET_RDZV_ID=mine"}), step_of_two())->run_id, "mine");
    EXPECT_EQ(plan(typed({"--rdzv-id=mine"}), {})->run_id, "mine");
    EXPECT_EQ(plan(typed({"--rdzv-id=mine", "--standalone"}), {})->run_id, "random");
}

TEST(RunWorld, Standalone) {
    const auto alone = plan(typed({"--standalone", "--rdzv-endpoint=n9:1"}),
                            Entries{"PET_NNODES=2", "PET_NODE_RANK=1", "PET_MASTER_ADDR=10.0.0.1", "MASTER_PORT=1",
                                    "SLURM_STEP_TASKS_PER_NODE=2"} +
                                step_of_two());
    ASSERT_TRUE(alone) << alone.error().message;
    EXPECT_EQ(alone->nodes.value, 1U);
    EXPECT_EQ(alone->node_rank.value, 0U);
    EXPECT_EQ(alone->master_addr.value, "127.0.0.1");
    EXPECT_EQ(alone->master_port.value, 4711);
    EXPECT_EQ(alone->notes, Entries());
    EXPECT_NE(error_of(typed({"--standalone", "--nnodes=2"}), {}).find("--standalone"), std::string::npos);
    EXPECT_TRUE(plan(typed({"--standalone", "--nnodes=1:1"}), {}));
}

TEST(RunWorld, RendezvousEndpointWhereNothingElseTells) {
    auto world = plan(typed({"--rdzv-endpoint=h:7", "--nnodes=2", "--node-rank=1"}), {});
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->master_addr.value, "h");
    EXPECT_EQ(world->master_addr.source, "--rdzv-endpoint");
    EXPECT_EQ(world->master_port.value, 7);
    EXPECT_EQ(world->notes, Entries());
    world = plan(typed({"--rdzv-endpoint=h", "--nnodes=2", "--node-rank=1"}), {});
    EXPECT_EQ(world->master_port.value, 29500);
    world = plan(typed({"--rdzv-endpoint=h", "--rdzv-backend=c10d", "--nnodes=2", "--node-rank=1"}), {});
    EXPECT_EQ(world->master_port.value, 29400);
    for (const char* const text : {"localhost:0", "localhost"}) {
        world = plan(typed({"--rdzv-endpoint", text, "--rdzv-backend=c10d"}), {});
        EXPECT_EQ(world->master_addr.value, "localhost");
        EXPECT_EQ(world->master_port.value, 4711) << "a free one";
        EXPECT_EQ(world->notes, Entries()) << "all is as the line says";
    }
    EXPECT_EQ(plan(typed({"--rdzv-endpoint=localhost:7"}), {})->master_port.value, 7);
}

TEST(RunWorld, StepBeforeTheRendezvousEndpoint) {
    auto world = plan(typed({"--rdzv-endpoint=n2:7"}), step_of_two());
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->master_addr.value, "n1");
    EXPECT_EQ(world->master_port.value, 12000);
    ASSERT_EQ(world->notes.size(), 1U);
    EXPECT_NE(world->notes[0].find("--rdzv-endpoint: the ranks meet at n1 (SLURM_STEP_NODELIST), port 12000"),
              std::string::npos)
        << world->notes[0];
    EXPECT_EQ(plan(typed({"--rdzv-endpoint=n1:12000"}), step_of_two())->notes, Entries());
    EXPECT_EQ(plan(typed({"--rdzv-endpoint=n1"}), step_of_two())->notes, Entries());
    world = plan(typed({"--rdzv-endpoint=n1:7"}), Entries{"MASTER_ADDR=10.0.0.1", "MASTER_PORT=9"} + step_of_two());
    EXPECT_EQ(world->master_addr.value, "10.0.0.1");
    EXPECT_EQ(world->master_port.value, 9);
    EXPECT_EQ(world->notes.size(), 1U) << "another port";
    world = plan(typed({"--rdzv-endpoint=h:7", "--master-addr=x", "--master-port=8"}), step_of_two());
    EXPECT_EQ(world->master_addr.value, "x");
    EXPECT_EQ(world->master_port.value, 8);
}

/// The second of three nodes by Slurm, the third by order=topology. The first has three GPUs, the others two each.
TEST(RunWorld, ANodeOfAnotherOrderThanSlurms) {
    const Entries ours{"RDMA_NCCL_RANKS=5:2:7", "RDMA_NCCL_NODE_ORDER=topology", "PET_NODE_RANK=2", "NODE_RANK=2",
                       "RDMA_NCCL_SET=@7.3," + marker_entry("RDMA_NCCL_NODE_ORDER", "topology") + "," +
                           marker_entry("PET_NODE_RANK", "2")};
    const auto step =
        ours + Entries{"SLURM_STEP_NODELIST=n[1-3]", "SLURM_STEP_NUM_NODES=3", "SLURM_STEP_TASKS_PER_NODE=1(x3)"} +
        step_of_two();
    EXPECT_EQ(plan({}, step)->first_rank(), 5U);
    EXPECT_EQ(plan(typed({"--node-rank=2"}), step)->first_rank(), 5U) << "as NODE_RANK says";
    const std::string slurms =
        "--node-rank \"1\": the order by the network gave this node another number, and its ranks by it: "
        "leave it as it is, or give order=slurm";
    EXPECT_EQ(error_of(typed({"--node-rank=1"}), step), slurms);
    EXPECT_NE(error_of({}, Entries{"PET_NODE_RANK=1"} + step).find("PET_NODE_RANK \"1\": the order"),
              std::string::npos);
    EXPECT_EQ(plan(typed({"--node-rank=1", "-n2"}), step)->first_rank(), 2U) << "the same number on each node";
    EXPECT_EQ(plan(typed({"--node-rank=1"}), Entries{"RDMA_NCCL_NODE_ORDER="} + step)->first_rank(), 5U);
}

TEST(RunWorld, MoreRanksThanGpus) {
    const Entries two{"CUDA_VISIBLE_DEVICES=0,1"};
    const auto world = plan(typed({"-n3"}), two);
    ASSERT_EQ(world->warnings.size(), 1U);
    EXPECT_EQ(
        world->warnings[0],
        "3 ranks, but 2 visible GPUs (CUDA_VISIBLE_DEVICES=\"0,1\"): local ranks from 2 on have none of their own");
    EXPECT_EQ(plan(typed({"-n2"}), two)->warnings, Entries());
    EXPECT_NE(error_of(typed({"-n3", "--virtual-local-rank"}), two).find("local rank 2 has no GPU"), std::string::npos);
    EXPECT_TRUE(plan(typed({"-n2", "--virtual-local-rank"}), two));
    EXPECT_TRUE(plan(typed({"-n3", "--virtual-local-rank"}), {}));
}

TEST(RunWorld, SeveralTasksOnTheNode) {
    const auto error = error_of({}, Entries{"SLURM_STEP_TASKS_PER_NODE=1,4"} + step_of_two());
    EXPECT_NE(error.find("4 tasks on a node"), std::string::npos) << error;
    EXPECT_NE(error.find("--ntasks-per-node=1"), std::string::npos) << error;
    EXPECT_EQ(error_of({}, Entries{"SLURM_STEP_TASKS_PER_NODE=4,1"} + step_of_two()).find("4 tasks on a node"),
              error.find("4 tasks on a node"))
        << "on another node: this one would wait for it";
    EXPECT_NE(error_of({}, Entries{"SLURM_LOCALID=1", "SLURM_STEP_TASKS_PER_NODE="} + step_of_two()), "no error");
}

TEST(RunWorld, BatchScriptIsNoStep) {
    const Entries batch = {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]",  "SLURM_JOB_NUM_NODES=2", "SLURM_NNODES=2",
                           "SLURM_NODEID=0", "SLURM_TASKS_PER_NODE=8(x2)", "SLURM_LOCALID=0"};
    const auto world = plan({}, batch);
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->nodes.value, 1U);
    EXPECT_EQ(world->run_id, "random");
    ASSERT_EQ(world->warnings.size(), 1U);
    EXPECT_NE(world->warnings[0].find("srun"), std::string::npos);
    const auto interactive = plan({}, Entries{"SLURM_STEP_ID=4294967290"} + step_of_two());
    ASSERT_TRUE(interactive);
    EXPECT_EQ(interactive->nodes.value, 1U);
}

TEST(RunWorld, OldStepVariables) {
    Entries old = step_of_two();
    std::erase(old, "SLURM_STEP_NUM_NODES=2");
    const auto world = plan({}, old + Entries{"SLURM_NNODES=2"});
    ASSERT_TRUE(world) << world.error().message;
    EXPECT_EQ(world->nodes.source, "SLURM_NNODES");
}

TEST(RunWorld, TroubleOfTheMachineIsPassedOn) {
    auto inquiry = answers();
    inquiry.head_address = [](const Step&) -> Result<std::string> { return fail("n1 does not resolve"); };
    const auto error = error_of({}, step_of_two(), inquiry);
    EXPECT_NE(error.find("n1 does not resolve; give --master-addr"), std::string::npos) << error;
    inquiry.free_port = []() -> Result<std::uint16_t> { return fail("no port"); };
    EXPECT_EQ(error_of({}, {}, inquiry), "no port");
}

} // namespace

} // namespace rdma_nccl::run
