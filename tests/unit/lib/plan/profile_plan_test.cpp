// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/plan/container.h"
#include "lib/plan/plan.h"
#include "lib/settings/parse.h"
#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

NodeFacts facts_with(const std::string& lines) {
    NodeFacts facts;
    test::add_roce(facts.fabric, "mlx5_0", "eth1", "10.1.0.5");
    facts.profiles.list = {parse_fabric_profile("link = ethernet\n" + lines, "p.conf").value()};
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
    const auto& decision = plan.profile.value().values.at(i);
    return std::string(name_of(decision.use)) + ": " + decision.why;
}

TEST(ProfilePlan, IsAdviceUntilItIsSwitchedOn) {
    const auto facts = facts_with("NCCL_IB_TC = 41 # a class\n");
    auto plan = make_plan(facts, {});
    EXPECT_EQ(text(plan, "NCCL_IB_TC"), "");
    EXPECT_EQ(use(plan), "advised: fabric_profile=on sets it");
    EXPECT_EQ(plan.profile->machine, "link ethernet");
    plan = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_EQ(text(plan, "NCCL_IB_TC"), "NCCL_IB_TC=41 [fabric profile]");
    EXPECT_EQ(find_variable(plan.variables, "NCCL_IB_TC")->why, "p.conf: a class");
    EXPECT_EQ(use(plan), "set: fabric_profile=on");
    EXPECT_EQ(text(make_plan(facts, settings_of("fabric_profile=off")), "NCCL_IB_TC"), "");
}

TEST(ProfilePlan, IsStrongerThanTheDefaultsOfTuning) {
    const auto facts = facts_with("NCCL_IB_QPS_PER_CONNECTION = 1\n");
    EXPECT_EQ(text(make_plan(facts, {}), "NCCL_IB_QPS_PER_CONNECTION"), "NCCL_IB_QPS_PER_CONNECTION=8 [default]");
    const auto plan = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_EQ(text(plan, "NCCL_IB_QPS_PER_CONNECTION"), "NCCL_IB_QPS_PER_CONNECTION=1 [fabric profile]");
    EXPECT_EQ(std::ranges::count(plan.variables, "NCCL_IB_QPS_PER_CONNECTION", &Variable::name), 1);
    EXPECT_EQ(text(plan, "NCCL_IB_TIMEOUT"), "NCCL_IB_TIMEOUT=22 [default]");
}

TEST(ProfilePlan, IsWeakerThanUserFileAndSite) {
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

TEST(ProfilePlan, ANestedStepReplacesOurs) {
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

TEST(ProfilePlan, AFileThatIsNotThereIsNotNamed) {
    auto facts = facts_with("NCCL_TOPO_FILE = /opt/topo.xml\n");
    facts.profiles.list[0].values[0].absent = true;
    const auto plan = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_EQ(text(plan, "NCCL_TOPO_FILE"), "");
    EXPECT_EQ(use(plan), "impossible: this node has no such file");
}

TEST(ProfilePlan, OfAnotherMachineIsNotThere) {
    auto facts = facts_with("NCCL_IB_TC = 41\n");
    facts.profiles.list[0].machine["gpus"] = {"8"};
    const auto plan = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_FALSE(plan.profile);
    EXPECT_EQ(text(plan, "NCCL_IB_TC"), "");
}

/// Each is one line, and none ends a strict step.
TEST(ProfilePlan, AFaultIsAWarningOnlyWhereProfilesCount) {
    auto facts = facts_with("");
    const std::string line = "b.conf:1: unknown key \"x\"; file ignored";
    facts.profiles.faults = {line + "\n    x = 1\n    ^"};
    const auto on = make_plan(facts, settings_of("fabric_profile"));
    EXPECT_TRUE(contains(on.warnings, line));
    EXPECT_FALSE(contains(on.notes, facts.profiles.faults[0]));
    for (const auto* const option : {"", "fabric_profile,strict"}) {
        const auto plan = make_plan(facts, settings_of(option));
        EXPECT_FALSE(contains(plan.warnings, line)) << option;
        EXPECT_TRUE(contains(plan.notes, facts.profiles.faults[0])) << option;
    }
}

TEST(ProfilePlan, GivesWayToTheImageOfAContainer) {
    const Variable ours{"NCCL_IB_TC", "41", std::string(profile_source), "p.conf", VariableAction::Set};
    Environment image;
    EXPECT_EQ(settle_in_container({ours}, {}, image).variables.front().value, "41");
    image.set("NCCL_IB_TC", "106");
    const auto settled = settle_in_container({ours}, {}, image);
    EXPECT_EQ(settled.variables.front().value, "106");
    EXPECT_EQ(settled.variables.front().action, VariableAction::Restore) << "not ours";
    EXPECT_TRUE(settled.notes.empty());
}

} // namespace
} // namespace rdma_nccl
