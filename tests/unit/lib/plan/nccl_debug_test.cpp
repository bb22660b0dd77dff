// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/nccl_variables.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

struct Outcome {
    std::vector<std::string> notes;
    std::vector<Variable> variables;

    /// "NAME=VALUE" of what is set.
    [[nodiscard]] std::vector<std::string> set() const {
        std::vector<std::string> texts;
        for (const auto& variable : variables) {
            if (variable.action == VariableAction::Set) {
                texts.push_back(variable.name + "=" + variable.value);
            }
        }
        return texts;
    }
    [[nodiscard]] std::string note() const { return notes.size() == 1 ? notes[0] : ""; }
};

using Texts = std::vector<std::string>;
using Given = std::vector<std::pair<std::string, std::string>>;

Outcome outcome(const Given& environment, const Given& conf = {}, const std::string& directory = "/scratch/j1") {
    NodeFacts facts;
    for (const auto& [name, value] : environment) {
        facts.environment.set(name, value);
    }
    for (const auto& [name, value] : conf) {
        facts.nccl_conf[name] = {value, "/etc/nccl.conf"};
    }
    VariableList variables(facts.environment, facts.nccl_conf);
    auto notes = add_nccl_debug(variables, facts, directory);
    return {std::move(notes), variables.take()};
}

const std::string file = "NCCL_DEBUG_FILE=/scratch/j1/nccl.%h.%p.log";
const std::string subsystems = "NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH";

TEST(NcclDebug, NothingOfTheUser) {
    const auto result = outcome({});
    EXPECT_EQ(result.set(), (Texts{"NCCL_DEBUG=INFO", subsystems, file}));
    EXPECT_EQ(result.notes, Texts{});
}

TEST(NcclDebug, ADirectoryWithPercentSigns) {
    EXPECT_EQ(outcome({}, {}, "/a%h/b%").set().back(), "NCCL_DEBUG_FILE=/a%%h/b%%/nccl.%h.%p.log");
}

TEST(NcclDebug, ALevelThatSaysTooLittle) {
    for (const char* level : {"WARN", "VERSION", "", "infos"}) {
        const auto result = outcome({{"NCCL_DEBUG", level}});
        EXPECT_EQ(result.set(), Texts{}) << level;
        EXPECT_EQ(result.note(),
                  "NCCL_DEBUG=" + std::string(level) + " stays: NCCL writes no logs that can be judged; unset it");
    }
    EXPECT_EQ(outcome({}, {{"NCCL_DEBUG", "WARN"}}).set(), Texts{});
    EXPECT_EQ(outcome({{"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_FILE", "/x.%p"}}).set(), Texts{});
}

TEST(NcclDebug, ALogThatTheUserWantsToSee) {
    for (const char* level : {"INFO", "info", "TRACE"}) {
        const auto result = outcome({{"NCCL_DEBUG", level}});
        EXPECT_EQ(result.set(), Texts{}) << level;
        EXPECT_NE(result.note().find(" stays and goes to the ranks' output"), std::string::npos) << result.note();
    }
}

TEST(NcclDebug, AFileOfTheUser) {
    auto result = outcome({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", "/tmp/n.%h.%p"}});
    EXPECT_EQ(result.set(), Texts{subsystems});
    EXPECT_EQ(result.notes, Texts{});
    result = outcome({}, {{"NCCL_DEBUG_FILE", "/tmp/n.%h.%p"}});
    EXPECT_EQ(result.set(), (Texts{"NCCL_DEBUG=INFO", subsystems}));
    result = outcome({{"NCCL_DEBUG_FILE", "/tmp/n.%h"}});
    EXPECT_EQ(result.note(), "NCCL_DEBUG_FILE=/tmp/n.%h stays: ranks overwrite each other's log; add %h and %p");
    result = outcome({{"NCCL_DEBUG_FILE", "/dev/stderr"}});
    EXPECT_NE(result.note().find("not in files that can be judged"), std::string::npos);
}

TEST(NcclDebug, SubsystemsOfTheUser) {
    for (const char* list : {"INIT", "COLL,net", "ALL", "^COLL", "^NET", "^INIT,COLL"}) {
        const auto result = outcome({{"NCCL_DEBUG_SUBSYS", list}});
        EXPECT_EQ(result.set(), (Texts{"NCCL_DEBUG=INFO", file})) << list;
        EXPECT_EQ(result.notes, Texts{}) << list;
    }
    for (const char* list : {"", "COLL", "ENV,GRAPH", "^ALL", "^INIT,NET"}) {
        EXPECT_NE(outcome({{"NCCL_DEBUG_SUBSYS", list}}).note().find("will not tell the connections"),
                  std::string::npos)
            << list;
    }
}

// What an outer step of ours has set is ours to set again.
TEST(NcclDebug, AnOuterStepIsNotTheUser) {
    const std::vector<std::string> entries = {"NCCL_DEBUG=INFO",
                                              "RDMA_NCCL_SET=@1.0," + marker_entry("NCCL_DEBUG", "INFO")};
    NodeFacts facts;
    facts.environment = Environment(entries);
    VariableList variables(facts.environment, facts.nccl_conf);
    EXPECT_EQ(add_nccl_debug(variables, facts, "/d"), Texts{});
    EXPECT_EQ(variables.list().size(), 3U);
    EXPECT_EQ(variables.list().back().value, "/d/nccl.%h.%p.log");
}

} // namespace
} // namespace rdma_nccl
