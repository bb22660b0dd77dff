// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/plan/container.h"
#include "lib/plan/plan.h"
#include "lib/settings/parse.h"
#include "tests/unit/fabric_values.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

NodeFacts facts_with(const std::string& lines) {
    NodeFacts facts;
    test::add_roce(facts.fabric, "mlx5_0", "eth1", "10.1.0.5");
    facts.fabric_profile =
        FoundFabricProfile{parse_fabric_profile("link = ethernet\n" + lines, "p.conf").value(), "link ethernet"};
    return facts;
}

Settings settings_of(const std::string& option, const std::string& site = "") {
    SettingsSources sources;
    sources.option = option;
    sources.site_path = "site.conf";
    sources.site_text = site;
    return resolve_settings(sources).settings;
}

/// "NAME=VALUE [SOURCE]", or "" if the plan does not have it.
std::string text(const Plan& plan, std::string_view name) {
    const auto* const found = find_variable(plan.variables, name);
    return found == nullptr ? "" : found->name + "=" + found->value + " [" + found->source + "]";
}

std::string use(const Plan& plan, std::size_t i = 0) {
    const auto& decision = plan.fabric_profile.value().values.at(i);
    return std::string(name_of(decision.use)) + ": " + decision.why;
}

TEST(FabricProfilePlan, IsAdviceUntilItIsSwitchedOn) {
    const auto facts = facts_with("NCCL_IB_TC = 41 # a class\n");
    auto plan = make_plan(facts, {});
    EXPECT_EQ(text(plan, "NCCL_IB_TC"), "");
    EXPECT_EQ(use(plan), "advised: fabric_profile=on sets it");
    EXPECT_EQ(plan.fabric_profile->machine, "link ethernet");
    plan = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_EQ(text(plan, "NCCL_IB_TC"), "NCCL_IB_TC=41 [fabric profile]");
    EXPECT_EQ(find_variable(plan.variables, "NCCL_IB_TC")->why, "p.conf: a class");
    EXPECT_EQ(std::ranges::count(plan.variables, true, &Variable::gives_way), 1);
    EXPECT_EQ(use(plan), "set: fabric_profile=on");
    EXPECT_EQ(text(make_plan(facts, settings_of("fabric_profile=off")), "NCCL_IB_TC"), "");
}

TEST(FabricProfilePlan, IsStrongerThanTheDefaultsOfTuning) {
    const auto facts = facts_with("NCCL_IB_QPS_PER_CONNECTION = 1\n");
    EXPECT_EQ(text(make_plan(facts, {}), "NCCL_IB_QPS_PER_CONNECTION"), "NCCL_IB_QPS_PER_CONNECTION=8 [default]");
    const auto plan = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_EQ(text(plan, "NCCL_IB_QPS_PER_CONNECTION"), "NCCL_IB_QPS_PER_CONNECTION=1 [fabric profile]");
    EXPECT_EQ(std::ranges::count(plan.variables, "NCCL_IB_QPS_PER_CONNECTION", &Variable::name), 1);
    EXPECT_EQ(text(plan, "NCCL_IB_TIMEOUT"), "NCCL_IB_TIMEOUT=22 [default]");
}

TEST(FabricProfilePlan, IsWeakerThanUserFileAndSite) {
    auto facts = facts_with("NCCL_IB_TC = 41\nNCCL_IB_SL = 0\nNCCL_IB_TIMEOUT = 20\n");
    facts.environment.set("NCCL_IB_TC", "106");
    facts.nccl_conf.emplace("NCCL_IB_SL", NcclConfValue{"3", "/etc/nccl.conf"});
    const auto plan = make_plan(facts, settings_of("fabric_profile", "NCCL_IB_TIMEOUT = 19\n"));
    EXPECT_EQ(text(plan, "NCCL_IB_TC"), "");
    EXPECT_EQ(text(plan, "NCCL_IB_SL"), "");
    EXPECT_EQ(text(plan, "NCCL_IB_TIMEOUT"), "NCCL_IB_TIMEOUT=19 [site.conf:1]");
    EXPECT_EQ(use(plan, 0), "kept: set in the environment");
    EXPECT_EQ(use(plan, 1), "kept: set in /etc/nccl.conf");
    EXPECT_EQ(use(plan, 2), "kept: 19 in site.conf:1");
}

TEST(FabricProfilePlan, TheSitesValueWinsWithoutTuningToo) {
    const auto facts = facts_with("NCCL_IB_TIMEOUT = 20\n");
    const auto plan = make_plan(facts, settings_of("fabric_profile,tuning=off", "NCCL_IB_TIMEOUT = 19\n"));
    EXPECT_EQ(use(plan), "kept: 19 in site.conf:1, which tuning=off ignores");
    EXPECT_EQ(text(plan, "NCCL_IB_TIMEOUT"), "");
}

TEST(FabricProfilePlan, OfSeveralNodesAllSetItOrNone) {
    auto facts = facts_with("NCCL_IB_QPS_PER_CONNECTION = 1\n");
    facts.step.node_count = 2;
    const auto settings = settings_of("fabric_profile");
    const auto alone = make_plan(facts, settings);
    EXPECT_EQ(use(alone), "withheld: set only where all nodes of the step have agreed on it");
    EXPECT_EQ(text(alone, "NCCL_IB_QPS_PER_CONNECTION"), "NCCL_IB_QPS_PER_CONNECTION=8 [default]");
    Coordination coordination;
    coordination.agreement = Agreement{.head_node = "n01", .head = std::nullopt, .head_why = ""};
    EXPECT_EQ(text(complete_plan(alone, facts, settings, coordination), "NCCL_IB_QPS_PER_CONNECTION"),
              "NCCL_IB_QPS_PER_CONNECTION=8 [default]")
        << "an srun that does not know profiles";
    coordination.agreement->fabric_profile = true;
    coordination.agreement->left_out = {"mlx5_0:1"}; // the port by which the profile was found
    const auto agreed = complete_plan(alone, facts, settings, coordination);
    EXPECT_EQ(use(agreed), "set: fabric_profile=on");
    EXPECT_EQ(text(agreed, "NCCL_IB_QPS_PER_CONNECTION"), "NCCL_IB_QPS_PER_CONNECTION=1 [fabric profile]");
}

TEST(FabricProfilePlan, AComponentOfAHeterogeneousJobIsNotAlone) {
    auto facts = facts_with("NCCL_IB_TC = 41\n");
    const auto settings = settings_of("fabric_profile");
    EXPECT_EQ(use(make_plan(facts, settings)), "set: fabric_profile=on");
    facts.step.heterogeneous = true;
    EXPECT_EQ(use(make_plan(facts, settings)), "withheld: set only where all nodes of the step have agreed on it");
}

TEST(FabricProfilePlan, NodesTellWhatTheyWouldSet) {
    const auto told = [](NodeFacts facts, const std::string& option = "fabric_profile") {
        facts.step.node_count = 2;
        return fabric_profile_to_agree(make_plan(facts, settings_of(option)).fabric_profile);
    };
    const std::string lines = "NCCL_IB_TC = 41\nNCCL_IB_SL = 0\n";
    const auto usual = told(facts_with(lines));
    EXPECT_TRUE(usual.starts_with("2 values of p.conf:")) << usual;
    EXPECT_EQ(told(facts_with(lines)), usual);
    EXPECT_NE(told(facts_with("NCCL_IB_TC = 41\nNCCL_IB_SL = 1\n")), usual);
    EXPECT_NE(told(facts_with("NCCL_IB_TC = 41\nNCCL_IB_PKEY = 0\n")), usual);
    auto other = facts_with(lines);
    other.fabric_profile->profile.file = "q.conf";
    EXPECT_NE(told(other), usual);
    other = facts_with(lines);
    other.nccl_conf.emplace("NCCL_IB_SL", NcclConfValue{"3", "/etc/nccl.conf"});
    EXPECT_TRUE(told(other).starts_with("1 value of p.conf:")) << told(other);
    EXPECT_EQ(told(NodeFacts()), no_fabric_profile_values);
    EXPECT_EQ(told(facts_with("")), no_fabric_profile_values) << "a note alone";
    EXPECT_EQ(told(facts_with(lines), ""), no_fabric_profile_values) << "only advice";
}

TEST(FabricProfilePlan, ANestedStepReplacesOurs) {
    auto facts = facts_with("NCCL_IB_TC = 41\n");
    const std::vector<std::string> entries = {
        "NCCL_IB_TC=41",
        std::string(marker_variable) + "=" + marker_value("7.0", {{"NCCL_IB_TC", "41", "", "", VariableAction::Set}})};
    facts.environment = Environment(std::span<const std::string>(entries));
    EXPECT_EQ(use(make_plan(facts, settings_of("fabric_profile"))), "set: fabric_profile=on");
    const auto advised = make_plan(facts, {});
    ASSERT_NE(find_variable(advised.variables, "NCCL_IB_TC"), nullptr);
    EXPECT_EQ(find_variable(advised.variables, "NCCL_IB_TC")->action, VariableAction::Unset);
}

TEST(FabricProfilePlan, AFileThatIsNotThereIsNotNamed) {
    auto facts = facts_with("NCCL_TOPO_FILE = /opt/topo.xml\n");
    facts.fabric_profile->profile.values[0].absent = true;
    const auto plan = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_EQ(text(plan, "NCCL_TOPO_FILE"), "");
    EXPECT_EQ(use(plan), "impossible: this node has no such file");
}

/// It is one line.
TEST(FabricProfilePlan, AFaultIsAWarningThatEndsNoStrictStep) {
    auto facts = facts_with("");
    const std::string line = "b.conf:1: unknown key \"x\"; file ignored";
    facts.fabric_profile_faults = {line + "\n    x = 1\n    ^"};
    const auto usual = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_TRUE(contains(usual.warnings, line));
    EXPECT_FALSE(contains(usual.notes, line));
    const auto strict = make_plan(facts, settings_of("fabric_profile,strict"));
    EXPECT_FALSE(contains(strict.warnings, line));
    EXPECT_TRUE(contains(strict.notes, line));
}

TEST(FabricProfilePlan, GivesWayToTheImageOfAContainer) {
    const Variable ours{"NCCL_IB_TC", "41", "fabric profile", "p.conf", VariableAction::Set, true};
    Environment image;
    EXPECT_EQ(settle_in_container({ours}, {}, image).variables.front().value, "41");
    image.set("NCCL_IB_TC", "106");
    const auto settled = settle_in_container({ours}, {}, image);
    EXPECT_EQ(settled.variables.front().value, "106");
    EXPECT_EQ(settled.variables.front().action, VariableAction::Restore) << "not ours";
    EXPECT_TRUE(settled.notes.empty());
    image.set("NCCL_IB_TC", "41"); // what user_init has set, seen in the container
    EXPECT_EQ(settle_in_container({ours}, {}, image).variables.front().source, "fabric profile");
}

TEST(FabricProfilePlan, GivesWayToTheFilesOfAContainer) {
    const auto variable = [](const char* name, const char* value, bool gives_way = true) {
        return Variable{name, value, "", "", VariableAction::Set, gives_way};
    };
    test::Tree tree;
    tree.file("/etc/nccl.conf", "NCCL_IB_TC=106\nNCCL_IB_TIMEOUT=20\n").file("/opt/seen.xml", "");
    ContainerVariables settled;
    settled.variables = {variable("NCCL_IB_TC", "41"), variable("NCCL_IB_SL", "0"),
                         variable("NCCL_IB_TIMEOUT", "22", false), variable("NCCL_TOPO_FILE", "/opt/seen.xml"),
                         variable("NCCL_GRAPH_FILE", "/opt/unseen.xml")};
    const auto unseen = withdraw_fabric_profile(tree.root(), {}, settled);
    EXPECT_EQ(unseen, std::vector<std::string>{"NCCL_GRAPH_FILE=/opt/unseen.xml"});
    EXPECT_EQ(settled.notes, std::vector<std::string>{"NCCL_IB_TC=106 of the container's /etc/nccl.conf stays: the "
                                                      "fabric profile gives way"});
    Environment task;
    task.set("NCCL_IB_TC", "41"); // what user_init has set
    task.set("NCCL_GRAPH_FILE", "/opt/unseen.xml");
    task = apply_variables(task, settled.variables);
    EXPECT_FALSE(task.get("NCCL_IB_TC"));
    EXPECT_FALSE(task.get("NCCL_GRAPH_FILE"));
    EXPECT_EQ(task.get("NCCL_IB_SL"), "0");
    EXPECT_EQ(task.get("NCCL_IB_TIMEOUT"), "22");
    EXPECT_EQ(task.get("NCCL_TOPO_FILE"), "/opt/seen.xml");
}

} // namespace
} // namespace rdma_nccl
