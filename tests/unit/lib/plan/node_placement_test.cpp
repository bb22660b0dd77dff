// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/node_placement.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using Texts = std::vector<std::string>;

CpuSet cpus(std::string_view list) {
    return CpuSet::parse_list(list).value();
}

/// Two packages, each a NUMA node of eight cores of one thread.
Topology two_sockets() {
    Topology topology;
    topology.packages = 2;
    for (unsigned core = 0; core < 16; ++core) {
        topology.cores.push_back({CpuSet::range(core, core), core / 8, core / 8, core / 8});
    }
    topology.numa_nodes = {{0, cpus("0-7"), 1024, 0, false}, {1, cpus("8-15"), 1024, 1, false}};
    return topology;
}

/// GPUs 0 and 1 on socket 0, 2 and 3 on socket 1; an HCA with two ports on each, that of socket 1 first.
NodeFacts node_of(Texts environment) {
    NodeFacts facts;
    for (unsigned number = 0; number < 4; ++number) {
        Gpu gpu;
        gpu.vendor = "nvidia";
        gpu.pci = "0000:" + std::to_string(10 + number) + ":00.0";
        gpu.local_cpus = cpus(number < 2 ? "0-7" : "8-15");
        facts.fabric.gpus.push_back(gpu);
    }
    for (unsigned number = 0; number < 2; ++number) {
        Hca hca;
        hca.name = "mlx5_" + std::to_string(number);
        hca.local_cpus = cpus(number == 0 ? "8-15" : "0-7");
        hca.ports.resize(1);
        facts.fabric.hcas.push_back(hca);
    }
    facts.environment = Environment(environment);
    facts.visible_gpus = find_visible_gpus(facts.environment, [&] { return facts.fabric.gpus.size(); });
    return facts;
}

Plan plan_of(const NodeFacts& facts) {
    Plan plan;
    plan.layout.layout = Layout::Rank;
    for (const auto& hca : facts.fabric.hcas) {
        PortChoice port;
        port.hca = hca.name;
        plan.fabric.ports.push_back(port);
    }
    plan.variables = {{"UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1", "fabric", "the same ports", VariableAction::Set}};
    return plan;
}

std::vector<CpuSet> masks_of(const Texts& lists) {
    std::vector<CpuSet> masks;
    for (const auto& list : lists) {
        masks.push_back(cpus(list));
    }
    return masks;
}

std::vector<CpuSet> all_open(std::size_t ranks) {
    return std::vector<CpuSet>(ranks, cpus("0-15"));
}

NodePlacement place(const NodeFacts& facts, std::vector<CpuSet> masks, BindChoice bind = BindChoice::Auto) {
    return place_ranks(facts, plan_of(facts), bind, two_sockets(), std::move(masks));
}

/// The value that a rank gets; "-" where it is not set.
std::string value_of(const NodeFacts& facts, const Plan& plan, const NodePlacement& node, std::string_view name,
                     unsigned local_rank = 0, unsigned cpus_per_task = 0) {
    VariableList variables(facts.environment, facts.nccl_conf);
    TaskFacts task;
    task.local_rank = local_rank;
    task.cpus_per_task = cpus_per_task;
    add_placement(variables, node, task, plan);
    const auto* variable = find_variable(variables.list(), name);
    return variable == nullptr || variable->action != VariableAction::Set ? "-" : variable->value;
}

std::string value_of(const NodeFacts& facts, const NodePlacement& node, std::string_view name, unsigned local_rank = 0,
                     unsigned cpus_per_task = 0) {
    return value_of(facts, plan_of(facts), node, name, local_rank, cpus_per_task);
}

TEST(NodePlacement, EachRankIsBesideItsGpuAndItsHca) {
    const auto facts = node_of({"CUDA_VISIBLE_DEVICES=0,1,2,3", "SLURM_STEP_GPUS=0-3"});
    const auto node = place(facts, all_open(4));
    EXPECT_EQ(placement_lines(node, facts.fabric),
              (Texts{"local rank 0: GPU 0 (0000:10:00.0), CPUs 0-3 (4 cores), memory of NUMA node 0, mlx5_1:1 first "
                     "(the NUMA node)",
                     "local rank 1: GPU 1 (0000:11:00.0), CPUs 4-7 (4 cores), memory of NUMA node 0, mlx5_1:1 first "
                     "(the NUMA node)",
                     "local rank 2: GPU 2 (0000:12:00.0), CPUs 8-11 (4 cores), memory of NUMA node 1, mlx5_0:1 first "
                     "(the NUMA node)",
                     "local rank 3: GPU 3 (0000:13:00.0), CPUs 12-15 (4 cores), memory of NUMA node 1, mlx5_0:1 first "
                     "(the NUMA node)"}));
    EXPECT_EQ(binding_why(node), "the tasks shared their CPUs: divided among them, near the GPUs");
}

TEST(NodePlacement, IndicesOfAConfinedStepAreThoseOfTheGrantedGpus) {
    const auto facts = node_of({"CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=2,3"});
    const auto node = place(facts, all_open(2));
    EXPECT_EQ(node.gpus, (std::vector<std::optional<std::size_t>>{2, 3}));
    EXPECT_EQ(node.placement.ranks[0].cpus, cpus("8-11"));
}

TEST(NodePlacement, BindOffLeavesTheCpusAndStillTellsTheHcas) {
    const auto facts = node_of({"SLURM_STEP_GPUS=0-3"});
    const auto node = place(facts, all_open(4), BindChoice::Off);
    EXPECT_FALSE(node.binds_cpus);
    EXPECT_FALSE(node.binds_memory);
    EXPECT_EQ(node.placement.ranks[2].cpus, cpus("0-15"));
    EXPECT_EQ(value_of(facts, node, "OMP_NUM_THREADS"), "-");
    EXPECT_EQ(value_of(facts, node, "UCX_NET_DEVICES", 2), "mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(binding_why(node), "nothing is bound");
}

TEST(NodePlacement, BindCpuBindsNoMemory) {
    const auto node = place(node_of({}), all_open(4), BindChoice::Cpu);
    EXPECT_TRUE(node.binds_cpus);
    EXPECT_FALSE(node.binds_memory);
    EXPECT_TRUE(place(node_of({}), all_open(4)).binds_memory);
}

TEST(NodePlacement, WithoutTopologyOrMasksNothingIsBound) {
    const auto facts = node_of({});
    EXPECT_FALSE(place_ranks(facts, plan_of(facts), BindChoice::Auto, Topology(), all_open(4)).binds_cpus);
    EXPECT_FALSE(place(facts, {}).binds_cpus);
    const auto one_unknown = place(facts, masks_of({"0-15", ""}));
    EXPECT_FALSE(one_unknown.binds_cpus);
    EXPECT_EQ(one_unknown.placement.ranks[0].cpus, cpus("0-15"));
}

TEST(NodePlacement, SlurmsOwnOrderOfTheGpusMayChange) {
    const auto facts = node_of({"CUDA_VISIBLE_DEVICES=0,1,2,3", "SLURM_STEP_GPUS=0-3"});
    const auto node = place(facts, masks_of({"8-11", "12-15", "0-3", "4-7"}));
    EXPECT_EQ(node.placement.ranks[0].gpu_to_cpus, Distance::SameNuma);
    EXPECT_EQ(value_of(facts, node, "CUDA_VISIBLE_DEVICES", 3), "2,3,0,1");
    EXPECT_EQ(binding_why(node), "each rank has CPUs of its own: kept");
}

TEST(NodePlacement, AUsersOrderOfTheGpusStays) {
    const auto crossed = masks_of({"8-11", "0-3"});
    const auto order_of = [&](const NodeFacts& facts) { return place(facts, crossed).placement.gpu_order; };
    EXPECT_TRUE(order_of(node_of({"CUDA_VISIBLE_DEVICES=1,0,2,3", "SLURM_STEP_GPUS=0-3"})).empty());
    EXPECT_TRUE(order_of(node_of({"CUDA_VISIBLE_DEVICES=0,1,2,3"})).empty()); // not Slurm's
    EXPECT_TRUE(order_of(node_of({"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "SLURM_STEP_GPUS=0-3"})).empty());
    EXPECT_FALSE(order_of(node_of({"CUDA_VISIBLE_DEVICES=0,1,2,3", "SLURM_STEP_GPUS=0-3"})).empty());
    EXPECT_FALSE(order_of(node_of({})).empty());                     // nobody's, and all are named
    EXPECT_TRUE(order_of(node_of({"SLURM_STEP_GPUS=0,2"})).empty()); // to name them would hide the others
}

TEST(NodePlacement, TheOrderStaysWhereNoRankDrivesOneGpu) {
    const auto facts = node_of({"CUDA_VISIBLE_DEVICES=0,1,2,3", "SLURM_STEP_GPUS=0-3"});
    auto plan = plan_of(facts);
    plan.layout.layout = Layout::Pod;
    const auto node = place_ranks(facts, plan, BindChoice::Auto, two_sockets(), masks_of({"8-11", "0-3"}));
    EXPECT_TRUE(node.placement.gpu_order.empty());
}

TEST(NodePlacement, AmdsOrderIsRocrs) {
    auto facts = node_of({});
    EXPECT_EQ(place(facts, all_open(4)).order_variable, "CUDA_VISIBLE_DEVICES");
    for (auto& gpu : facts.fabric.gpus) {
        gpu.vendor = "amd";
    }
    const auto node = place(facts, masks_of({"8-11", "0-3"}));
    EXPECT_EQ(value_of(facts, node, "ROCR_VISIBLE_DEVICES"), "2,1,0,3");
}

TEST(NodePlacement, RocrsOrderIsNotChangedByHipsNumbers) {
    auto facts = node_of({"ROCR_VISIBLE_DEVICES=0,1,2,3", "HIP_VISIBLE_DEVICES=0,1,2,3", "SLURM_STEP_GPUS=0-3"});
    for (auto& gpu : facts.fabric.gpus) {
        gpu.vendor = "amd";
    }
    const auto node = place(facts, masks_of({"0-3", "8-11", "4-7", "12-15"}));
    EXPECT_TRUE(node.placement.gpu_order.empty()) << "HIP's 0 to 3 count within ROCR's list";
}

TEST(NodePlacement, GpusThatNobodyAskedForAreNoReasonToWarn) {
    EXPECT_TRUE(place(node_of({}), all_open(8)).placement.warnings.empty());
    EXPECT_FALSE(place(node_of({"SLURM_STEP_GPUS=0-3"}), all_open(8)).placement.warnings.empty());
}

TEST(NodePlacement, WhereOnlyANumberOfGpusIsKnownTheyMayBeAny) {
    const auto some = place(node_of({"SLURM_GPUS_ON_NODE=2"}), all_open(2));
    EXPECT_EQ(some.gpus, (std::vector<std::optional<std::size_t>>{std::nullopt, std::nullopt}));
    const auto all = place(node_of({"SLURM_GPUS_ON_NODE=4"}), all_open(4));
    EXPECT_EQ(all.gpus[3], 3U);
}

TEST(NodePlacement, ThreadsAreThoseOfItsCoresButNoMoreThanAskedFor) {
    const auto facts = node_of({"SLURM_STEP_GPUS=0-3"});
    const auto node = place(facts, all_open(4));
    EXPECT_EQ(value_of(facts, node, "OMP_NUM_THREADS"), "3");
    EXPECT_EQ(value_of(facts, node, "OMP_NUM_THREADS", 0, 2), "2");
    EXPECT_EQ(value_of(facts, node, "OMP_NUM_THREADS", 0, 16), "3");
}

TEST(NodePlacement, UsersOwnVariablesStay) {
    const auto facts = node_of({"SLURM_STEP_GPUS=0-3", "OMP_NUM_THREADS=7", "NVSHMEM_HCA_LIST=mlx5_9"});
    const auto node = place(facts, all_open(4));
    EXPECT_EQ(value_of(facts, node, "OMP_NUM_THREADS"), "-");
    EXPECT_EQ(value_of(facts, node, "NVSHMEM_HCA_LIST"), "-");
}

TEST(NodePlacement, HcasAreOrderedOnlyWhereThePlanNamesThem) {
    const auto facts = node_of({"SLURM_STEP_GPUS=0-3"});
    const auto node = place(facts, all_open(4));
    EXPECT_EQ(value_of(facts, node, "UCX_NET_DEVICES", 0), "mlx5_1:1,mlx5_0:1");
    EXPECT_EQ(value_of(facts, node, "UCX_NET_DEVICES", 3), "mlx5_0:1,mlx5_1:1");
    EXPECT_EQ(value_of(facts, node, "NVSHMEM_HCA_LIST", 0), "mlx5_1:1,mlx5_0:1");
    auto plan = plan_of(facts);
    plan.variables.front().action = VariableAction::Keep;
    EXPECT_EQ(value_of(facts, plan, node, "UCX_NET_DEVICES"), "-");
    plan.variables.clear();
    EXPECT_EQ(value_of(facts, plan, node, "UCX_NET_DEVICES"), "-");
    EXPECT_EQ(value_of(facts, plan, node, "NVSHMEM_HCA_LIST"), "-");
}

TEST(NodePlacement, OnlyUsedPortsCount) {
    const auto facts = node_of({"SLURM_STEP_GPUS=0-3"});
    auto plan = plan_of(facts);
    plan.fabric.ports.pop_back();
    const auto node = place_ranks(facts, plan, BindChoice::Auto, two_sockets(), all_open(4));
    EXPECT_EQ(node.ports, Texts{"mlx5_0:1"});
    EXPECT_EQ(node.ports_of(node.placement.ranks[0]), "mlx5_0:1");
}

TEST(NodePlacement, JaxTakesTheGpuOfLocalRank) {
    const auto facts = node_of({"SLURM_STEP_GPUS=0-3"});
    const auto node = place(facts, all_open(6));
    EXPECT_EQ(value_of(facts, node, "JAX_LOCAL_DEVICE_IDS", 3), "3");
    EXPECT_EQ(value_of(facts, node, "JAX_LOCAL_DEVICE_IDS", 5), "1");
    auto plan = plan_of(facts);
    plan.layout.layout = Layout::Node;
    EXPECT_EQ(value_of(facts, plan, node, "JAX_LOCAL_DEVICE_IDS", 3), "-");
    const auto no_gpus = node_of({"CUDA_VISIBLE_DEVICES="});
    EXPECT_EQ(value_of(no_gpus, place(no_gpus, all_open(2)), "JAX_LOCAL_DEVICE_IDS"), "-");
}

/// A step with srun --gpus-per-task=1 or the like: each task sees its own GPU alone.
class IsolatedTasks : public ::testing::Test {
protected:
    NodePlacement place_task(unsigned local_rank, const std::string& gpus, std::vector<CpuSet> masks) {
        environment_ = Environment(Texts{"CUDA_VISIBLE_DEVICES=" + gpus});
        const auto view = view_of_task(local_rank, environment_, facts_);
        return place_ranks(facts_, plan_of(facts_), BindChoice::Auto, two_sockets(), std::move(masks), view);
    }
    CpuSet cpus_of_task(unsigned local_rank, const std::string& gpus, const std::vector<CpuSet>& masks) {
        const auto node = place_task(local_rank, gpus, masks);
        return node.placement.ranks.at(node.own).cpus;
    }

    NodeFacts facts_ = node_of({"SLURM_STEP_GPUS=0-3"});
    Environment environment_;
};

TEST_F(IsolatedTasks, ComeToDisjointPartsEachForItself) {
    const std::vector<Texts> orders = {{"0", "1", "2", "3"}, {"3", "0", "2", "1"}, {"2", "3"}};
    for (const auto& gpus : orders) {
        CpuSet taken;
        for (unsigned rank = 0; rank < gpus.size(); ++rank) {
            const CpuSet own = cpus_of_task(rank, gpus[rank], all_open(gpus.size()));
            EXPECT_EQ(own.size(), 4U);
            EXPECT_FALSE(taken.intersects(own)) << gpus[rank] << ": " << own.list();
            EXPECT_TRUE(cpus(gpus[rank] < "2" ? "0-7" : "8-15").contains(own)) << gpus[rank] << ": " << own.list();
            taken |= own;
        }
    }
}

TEST_F(IsolatedTasks, WithTwoGpusEachAreParts) {
    EXPECT_EQ(cpus_of_task(0, "2,3", all_open(2)), cpus("8-15"));
    EXPECT_EQ(cpus_of_task(1, "0,1", all_open(2)), cpus("0-7"));
    EXPECT_EQ(value_of(facts_, place_task(0, "2,3", all_open(2)), "JAX_LOCAL_DEVICE_IDS"), "0,1");
}

TEST_F(IsolatedTasks, KeepCpusOfTheirOwn) {
    EXPECT_EQ(cpus_of_task(0, "3", masks_of({"0-3", "4-7"})), cpus("0-3"));
    const auto node = place_task(0, "3", masks_of({"0-3", "4-7"}));
    EXPECT_EQ(node.placement.ranks.at(node.own).gpus, GpuNumbers{3});
    EXPECT_EQ(node.placement.ranks.at(node.own).gpu_to_cpus, Distance::Other);
}

TEST_F(IsolatedTasks, WithGpusThatAreNoPartOfTheStepsKeepWhatAllHave) {
    EXPECT_EQ(cpus_of_task(0, "1,2", all_open(2)), cpus("0-15"));
    EXPECT_EQ(cpus_of_task(1, "", all_open(2)), cpus("0-15"));
    EXPECT_EQ(cpus_of_task(1, "GPU-0", all_open(2)), cpus("0-15"));
    EXPECT_EQ(cpus_of_task(1, "0", all_open(6)), cpus("0-15")); // more tasks than GPUs
}

TEST_F(IsolatedTasks, NeverChangeTheOrderOfTheGpus) {
    EXPECT_TRUE(place_task(0, "0", masks_of({"8-11", "0-3"})).placement.gpu_order.empty());
}

TEST_F(IsolatedTasks, AreToldWhatIsTheirs) {
    const auto node = place_task(0, "3", all_open(4));
    EXPECT_EQ(node.seen_gpus, 1U);
    EXPECT_EQ(value_of(facts_, node, "JAX_LOCAL_DEVICE_IDS"), "0");
    EXPECT_EQ(value_of(facts_, node, "UCX_NET_DEVICES"), "mlx5_0:1,mlx5_1:1"); // near to GPU 3, not to GPU 0
    const auto unknown = place_task(0, "GPU-7", all_open(4));
    EXPECT_EQ(rank_text(unknown, facts_.fabric, unknown.placement.ranks.at(unknown.own)).find("a GPU that cannot be "),
              0U);
}

TEST_F(IsolatedTasks, InADeviceCgroupCountFromZero) {
    environment_ = Environment(Texts{"CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=3"});
    const auto view = view_of_task(1, environment_, facts_);
    const auto node = place_ranks(facts_, plan_of(facts_), BindChoice::Auto, two_sockets(), all_open(4), view);
    EXPECT_EQ(node.placement.ranks.at(node.own).gpus, GpuNumbers{3});
    EXPECT_EQ(node.placement.ranks.at(node.own).cpus, cpus("12-15"));
}

TEST_F(IsolatedTasks, ThatSeeAllAreNone) {
    const auto node = place_task(2, "0,1,2,3", all_open(4));
    EXPECT_FALSE(node.seen_gpus);
    EXPECT_EQ(node.own, 2U);
    EXPECT_EQ(node.placement.ranks[2].cpus, cpus("8-11"));
}

TEST(JudgeIsolation, WarnsOfTasksThatSeeFewerGpusThanTheNode) {
    const auto facts = node_of({"SLURM_STEP_GPUS=0-3"});
    const VisibleGpus one{{"0"}, "CUDA_VISIBLE_DEVICES=\"0\"", ""};
    const auto warning = judge_isolation(facts, one, 4);
    ASSERT_TRUE(warning);
    EXPECT_EQ(warning->find("each task sees 1 of the node's 4 GPUs (CUDA_VISIBLE_DEVICES=\"0\"): "), 0U) << *warning;
    EXPECT_NE(warning->find("--gpus-per-node=4 --gpu-bind=none"), std::string::npos);
    EXPECT_FALSE(judge_isolation(facts, one, 1));
    EXPECT_FALSE(judge_isolation(facts, {{"0", "1", "2", "3"}, "", ""}, 4));
    EXPECT_FALSE(judge_isolation(node_of({"SLURM_STEP_GPUS=2"}), one, 4));
    EXPECT_FALSE(judge_isolation(node_of({"SLURM_STEP_GPUS=2"}), {{}, "", ""}, 4));
}

std::optional<std::string> judge(const std::string& step, const std::string& job, std::size_t ranks,
                                 std::size_t cores) {
    return judge_cpus(Environment(Texts{"SLURM_CPUS_ON_NODE=" + step, "SLURM_JOB_CPUS_PER_NODE=" + job}), ranks, cores);
}

TEST(JudgeCpus, WarnsOfAStepThatHasFewOfTheJobsCpus) {
    const auto warning = judge("4", "64(x2)", 4, 2);
    ASSERT_TRUE(warning);
    EXPECT_EQ(warning->find("4 ranks on 2 CPUs: the step has 4 of the job's 64 CPUs on a node, "), 0U) << *warning;
    EXPECT_EQ(judge("2", "64,32(x3)", 1, 1)->find("1 rank on 1 CPU: the step has 2 of the job's 32 CPUs"), 0U);
}

TEST(JudgeCpus, IsSilentWhereSrunGotWhatItWasAskedFor) {
    const auto judge_asked = [](const std::string& per_task) {
        return judge_cpus(
            Environment(Texts{"SLURM_CPUS_ON_NODE=1", "SLURM_JOB_CPUS_PER_NODE=64", "SLURM_CPUS_PER_TASK=" + per_task}),
            1, 1);
    };
    EXPECT_FALSE(judge_asked("1")) << "srun -c1 --exact, one of many";
    EXPECT_TRUE(judge_asked("64")) << "the job's own, which srun did not take over";
}

TEST(JudgeCpus, IsSilentWhereThereAreEnoughOrNoMoreCanBeHad) {
    EXPECT_FALSE(judge("16", "64", 4, 8)); // two cores each
    EXPECT_TRUE(judge("16", "64", 4, 7));
    EXPECT_FALSE(judge("64", "64", 4, 2));
    EXPECT_FALSE(judge("64", "64(x2),8", 4, 2)); // another node of the job has fewer
    EXPECT_FALSE(judge("4", "64", 0, 0));
    EXPECT_FALSE(judge("x", "64", 4, 2));
    EXPECT_FALSE(judge("4", "x(x2)", 4, 2));
    EXPECT_FALSE(judge_cpus(Environment(), 4, 2));
}

TEST(Masks, AreReadAsTheyAreWritten) {
    for (const auto& lists : std::vector<Texts>{
             {"0"}, {"0-15", "0-15"}, {"0-1", "2-3"}, {"0,64-127", "8191", "0,64-127"}, {"5", "5", "6"}}) {
        const auto masks = masks_of(lists);
        EXPECT_EQ(read_masks(write_masks(masks), masks.size()), masks) << write_masks(masks);
    }
}

TEST(Masks, AreWrittenOnceWhereTheyAreTheSame) {
    EXPECT_EQ(write_masks(masks_of({"0-15", "0-15", "0-15"})), "0-15");
    EXPECT_EQ(write_masks(masks_of({"0-1", "2-3"})), "0-1/2-3");
    EXPECT_EQ(write_masks({}), "");
    EXPECT_EQ(read_masks("0-3", 3), masks_of({"0-3", "0-3", "0-3"}));
}

TEST(Masks, AreNoneWhereTheTextIsNoneOrOfOtherRanks) {
    for (const auto* const text : {"", "/", "0-1/", "/0-1", "0-1/2-3/4-5", "0-1/x", "x", "8192/0", "0 1/2"}) {
        EXPECT_EQ(read_masks(text, 2), std::nullopt) << text;
    }
}

} // namespace
} // namespace rdma_nccl
