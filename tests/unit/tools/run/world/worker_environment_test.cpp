// SPDX-License-Identifier: Apache-2.0
#include "tools/run/world/world.h"

#include "lib/base/lists.h"

#include <gtest/gtest.h>
#include <map>

namespace rdma_nccl::run {

namespace {

using Entries = std::vector<std::string>;

WorldPlan second_of_three_nodes() {
    WorldPlan plan;
    plan.ranks_per_node.value = 4;
    plan.nodes.value = 3;
    plan.node_rank.value = 1;
    plan.master_addr.value = "10.0.0.1";
    plan.master_port.value = 12000;
    plan.run_id = "7.3";
    return plan;
}

std::map<std::string, std::string> environment_of(const Entries& base, const WorkerSettings& settings = {8, "/e"},
                                                  const Options& options = {}) {
    std::map<std::string, std::string> result;
    const auto entries = worker_environment(second_of_three_nodes(), options, 2, settings, Environment(base));
    for (const auto& entry : entries) {
        result[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
    }
    EXPECT_EQ(result.size(), entries.size()) << "a name occurs twice";
    return result;
}

TEST(RunWorker, ExactlyThese) {
    const std::map<std::string, std::string> expected = {{"RANK", "6"},
                                                         {"LOCAL_RANK", "2"},
                                                         {"WORLD_SIZE", "12"},
                                                         {"LOCAL_WORLD_SIZE", "4"},
                                                         {"GROUP_RANK", "1"},
                                                         {"GROUP_WORLD_SIZE", "3"},
                                                         {"ROLE_RANK", "6"},
                                                         {"ROLE_NAME", "default"},
                                                         {"ROLE_WORLD_SIZE", "12"},
                                                         {"NODE_RANK", "1"},
                                                         {"NNODES", "3"},
                                                         {"MASTER_ADDR", "10.0.0.1"},
                                                         {"MASTER_PORT", "12000"},
                                                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                         {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                                         {"TORCHELASTIC_RUN_ID", "7.3"},
                                                         {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                         {"TORCHELASTIC_ERROR_FILE", "/e/2/error.json"},
                                                         {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                         {"OMP_NUM_THREADS", "2"},
                                                         {"JAX_LOCAL_DEVICE_IDS", "2"}};
    EXPECT_EQ(environment_of({}), expected);
}

TEST(RunWorker, RasIsAskedWhereItListens) {
    WorkerSettings settings{8, "/e"};
    EXPECT_FALSE(environment_of({}, settings).contains("NCCL_RAS_ADDR"));
    EXPECT_EQ(ras_address(settings, Environment(Entries{})), "localhost:28028");
    settings.ras_port = 12002;
    EXPECT_EQ(environment_of({}, settings).at("NCCL_RAS_ADDR"), "127.0.0.1:12002");
    EXPECT_EQ(ras_address(settings, Environment(Entries{})), "127.0.0.1:12002");
    EXPECT_EQ(environment_of({"NCCL_RAS_ADDR=[::1]:7"}, settings).at("NCCL_RAS_ADDR"), "[::1]:7");
    EXPECT_EQ(ras_address(settings, Environment(Entries{"NCCL_RAS_ADDR=[::1]:7"})), "[::1]:7");
    settings.conf_ras_address = "localhost:8";
    EXPECT_EQ(ras_address(settings, Environment(Entries{})), "localhost:8");
    EXPECT_EQ(ras_address(settings, Environment(Entries{"NCCL_RAS_ADDR=[::1]:7"})), "[::1]:7");
}

TEST(RunWorker, WithTheFlightRecorder) {
    WorkerSettings settings;
    settings.recorder_directory = "/logs/attempt_0";
    WorldPlan plan;
    plan.nodes.value = plan.ranks_per_node.value = 1;
    const auto variables = worker_variables(plan, {}, 0, settings, {});
    const auto value_of = [&](const std::string& name) {
        const auto* const found = find_by(variables, &std::pair<std::string, std::string>::first, name);
        return found == nullptr ? "none" : found->second;
    };
    EXPECT_EQ(value_of("TORCH_FR_DUMP_TEMP_FILE"), "/logs/attempt_0/nccl_trace_rank_");
    EXPECT_EQ(value_of("TORCH_NCCL_TRACE_BUFFER_SIZE"), "2000");
    EXPECT_EQ(value_of("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "none");
}

TEST(RunWorker, InheritedValues) {
    const auto environment =
        environment_of({"HOME=/h", "A=b=c", "EMPTY=", "RANK=99", "WORLD_SIZE=1", "OMP_NUM_THREADS=5",
                        "TORCH_NCCL_ASYNC_ERROR_HANDLING=0", "JAX_LOCAL_DEVICE_IDS=7"});
    EXPECT_EQ(environment.at("HOME"), "/h");
    EXPECT_EQ(environment.at("A"), "b=c");
    EXPECT_EQ(environment.at("EMPTY"), "");
    EXPECT_EQ(environment.at("RANK"), "6");
    EXPECT_EQ(environment.at("WORLD_SIZE"), "12");
    EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "5");
    EXPECT_EQ(environment.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
    EXPECT_EQ(environment.at("JAX_LOCAL_DEVICE_IDS"), "7");
}

TEST(RunWorker, PluginsValuesForTheWholeNodeAreReplaced) {
    const auto environment = environment_of({"JAX_LOCAL_DEVICE_IDS=0,1,2,3", "OMP_NUM_THREADS=8",
                                             "RDMA_NCCL_SET=" + marker_entry("JAX_LOCAL_DEVICE_IDS", "0,1,2,3") + "," +
                                                 marker_entry("OMP_NUM_THREADS", "8")});
    EXPECT_EQ(environment.at("JAX_LOCAL_DEVICE_IDS"), "2");
    EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "2");
}

TEST(RunWorker, PetVariablesAreNotHandedDown) {
    const auto environment = environment_of({"PET_NNODES=3", "PET_MASTER_ADDR=x", "PETER=1"});
    EXPECT_EQ(environment.count("PET_NNODES") + environment.count("PET_MASTER_ADDR"), 0U);
    EXPECT_EQ(environment.at("PETER"), "1");
}

TEST(RunWorker, WithoutTorchelastic) {
    Options options;
    options.torchelastic_environment = false;
    for (const auto& [name, value] :
         environment_of({"TORCHELASTIC_RUN_ID=outer", "TORCHELASTIC_MAX_RESTARTS=0"}, {8, "/e"}, options)) {
        EXPECT_FALSE(name.starts_with("TORCHELASTIC")) << name << "=" << value;
    }
    EXPECT_EQ(environment_of({}, {8, ""}).count("TORCHELASTIC_ERROR_FILE"), 0U);
    // Who reads Slurm's numbers instead gets those of the ranks.
    const auto slurm = environment_of({"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=0"}, {8, "/e"}, options);
    EXPECT_EQ(slurm.at("SLURM_PROCID"), slurm.at("RANK"));
    EXPECT_EQ(slurm.at("SLURM_LOCALID"), slurm.at("LOCAL_RANK"));
    EXPECT_EQ(slurm.at("SLURM_NTASKS"), slurm.at("WORLD_SIZE"));
    EXPECT_EQ(environment_of({}, {8, "/e"}, options).count("SLURM_PROCID"), 0U);
}

TEST(RunWorker, RestartsAndRole) {
    WorkerSettings settings{8, "/e/attempt_2"};
    settings.attempt = 2;
    Options options;
    options.role = "trainer";
    options.max_restarts = 5;
    const auto environment = environment_of({}, settings, options);
    EXPECT_EQ(environment.at("ROLE_NAME"), "trainer");
    EXPECT_EQ(environment.at("TORCHELASTIC_RESTART_COUNT"), "2");
    EXPECT_EQ(environment.at("TORCHELASTIC_MAX_RESTARTS"), "5");
    EXPECT_EQ(environment.at("TORCHELASTIC_ERROR_FILE"), "/e/attempt_2/2/error.json");
}

TEST(RunWorker, VirtualLocalRank) {
    Options options;
    options.virtual_local_rank = true;
    for (const auto& [list, own] : {std::pair("CUDA_VISIBLE_DEVICES=4,GPU-a, 6 ,7", "6"), std::pair("A=1", "2")}) {
        const auto environment = environment_of({list}, {}, options);
        EXPECT_EQ(environment.at("LOCAL_RANK"), "0");
        EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "4");
        EXPECT_EQ(environment.at("RANK"), "6");
        EXPECT_EQ(environment.at("CUDA_VISIBLE_DEVICES"), own);
        EXPECT_EQ(environment.at("JAX_LOCAL_DEVICE_IDS"), "0");
    }
}

TEST(RunWorker, AtLeastOneThread) {
    EXPECT_EQ(environment_of({}, {3, ""}).at("OMP_NUM_THREADS"), "1");
}

} // namespace

} // namespace rdma_nccl::run
