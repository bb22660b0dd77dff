// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/nccl_variables.h"

#include <gtest/gtest.h>
#include <map>

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

using Values = std::map<std::string, std::string>;

/// What is set, or as "" why nothing is.
Values inspector(const NodeFacts& facts, const std::optional<std::string>& path = "/opt/inspector.so") {
    VariableList variables(facts.environment, facts.nccl_conf);
    Values values;
    if (auto note = add_nccl_inspector(variables, facts, path, "/tmp/j1")) {
        values[""] = *std::move(note);
    }
    for (const auto& variable : variables.take()) {
        if (variable.action == VariableAction::Set) {
            values[variable.name] = variable.value;
        }
    }
    return values;
}

TEST(NcclInspector, IsSwitchedOn) {
    EXPECT_EQ(inspector({}), (Values{{"NCCL_PROFILER_PLUGIN", "/opt/inspector.so"},
                                     {"NCCL_INSPECTOR_ENABLE", "1"},
                                     {"NCCL_INSPECTOR_DUMP_DIR", "/tmp/j1"},
                                     {"NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS", "500"}}));
}

TEST(NcclInspector, TheUsersValuesStay) {
    NodeFacts facts;
    facts.environment.set("NCCL_INSPECTOR_DUMP_DIR", "/home/alice/inspector");
    facts.nccl_conf["NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"] = {"1000", "/etc/nccl.conf"};
    EXPECT_EQ(inspector(facts),
              (Values{{"NCCL_PROFILER_PLUGIN", "/opt/inspector.so"}, {"NCCL_INSPECTOR_ENABLE", "1"}}));
    facts.environment.set("NCCL_PROFILER_PLUGIN", "mine");
    EXPECT_EQ(inspector(facts), (Values{{"", "NCCL_PROFILER_PLUGIN=mine stays: unset it"}}));
}

TEST(NcclInspector, SaysWhatToDoWhereItIsNotInstalled) {
    const auto absent = inspector({}, std::nullopt);
    ASSERT_EQ(absent.size(), 1U);
    EXPECT_EQ(absent.at(""), "libnccl-profiler-inspector.so is not found: build it in plugins/profiler/inspector of "
                             "NCCL's source (ext-profiler/inspector of 2.28 to 2.29.6), and add its folder to "
                             "LD_LIBRARY_PATH");
}

TEST(NcclInspector, NoneForRccl) {
    NodeFacts facts;
    facts.fabric.gpus.emplace_back().vendor = "amd";
    const auto values = inspector(facts);
    ASSERT_EQ(values.size(), 1U);
    EXPECT_TRUE(values.at("").starts_with("RCCL crashes ")) << values.at("");
}

} // namespace
} // namespace rdma_nccl
