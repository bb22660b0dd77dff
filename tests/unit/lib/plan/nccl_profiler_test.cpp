// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/nccl_variables.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

struct Outcome {
    std::optional<std::string> note;
    std::string plugin, directory; ///< empty: not set by us
};

Outcome outcome(const NodeFacts& facts) {
    VariableList variables(facts.environment, facts.nccl_conf);
    Outcome result;
    result.note = add_nccl_profiler(variables, facts, "/dev/shm/j1");
    for (const auto& variable : variables.take()) {
        if (variable.action == VariableAction::Set) {
            (variable.name == "NCCL_PROFILER_PLUGIN" ? result.plugin : result.directory) = variable.value;
        }
    }
    return result;
}

TEST(NcclProfiler, IsOurs) {
    const auto result = outcome({});
    EXPECT_EQ(result.note, std::nullopt);
    EXPECT_TRUE(result.plugin.ends_with("/rdma-nccl/librdma_nccl_profiler.so")) << result.plugin;
    EXPECT_EQ(result.directory, "/dev/shm/j1");
}

TEST(NcclProfiler, TheUsersStays) {
    NodeFacts by_environment;
    by_environment.environment.set("NCCL_PROFILER_PLUGIN", "inspector");
    NodeFacts by_file;
    by_file.nccl_conf["NCCL_PROFILER_PLUGIN"] = {"inspector", "/etc/nccl.conf"};
    for (const auto& facts : {by_environment, by_file}) {
        const auto result = outcome(facts);
        EXPECT_EQ(result.note, "NCCL_PROFILER_PLUGIN=inspector stays: unset it");
        EXPECT_EQ(result.plugin + result.directory, "");
    }
}

TEST(NcclProfiler, NoneForRccl) {
    NodeFacts facts;
    facts.fabric.gpus.emplace_back().vendor = "amd";
    const auto result = outcome(facts);
    EXPECT_NE(result.note.value_or("").find("RCCL"), std::string::npos);
    EXPECT_EQ(result.plugin + result.directory, "");
}

} // namespace
} // namespace rdma_nccl
