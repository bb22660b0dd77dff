// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/container.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

Environment environment(std::vector<std::string> entries) {
    return Environment(std::span<const std::string>(entries));
}

Variable variable(const std::string& name, const std::string& value, VariableAction action) {
    return {name, value, "fabric", "a reason", action};
}

TEST(SettleInContainer, OursReplacesTheImages) {
    const auto settled = settle_in_container({variable("NCCL_IB_HCA", "=mlx5_0:1", VariableAction::Set)},
                                             environment({}), environment({"NCCL_IB_HCA=mlx4"}));
    EXPECT_EQ(settled.variables.front().action, VariableAction::Set);
    EXPECT_EQ(settled.notes,
              std::vector<std::string>{"NCCL_IB_HCA=mlx4 of the container's image is replaced by =mlx5_0:1"});
}

TEST(SettleInContainer, WhatTheUserOrTheNodesFilesSayIsRestored) {
    auto from_file = variable("NCCL_IB_TC", "106", VariableAction::Keep);
    from_file.source = "/etc/nccl.conf";
    const auto settled =
        settle_in_container({variable("NCCL_IB_HCA", "mlx5_3", VariableAction::Keep), std::move(from_file)},
                            environment({"NCCL_IB_HCA=mlx5_3"}), environment({"NCCL_IB_HCA=mlx4"}));
    EXPECT_EQ(settled.variables[0].action, VariableAction::Restore);
    EXPECT_EQ(settled.variables[0].value, "mlx5_3");
    EXPECT_EQ(settled.variables[1].action, VariableAction::Restore);
    EXPECT_EQ(marker_value("7.0", settled.variables), "@7.0") << "they are not ours";
    EXPECT_EQ(settled.notes,
              std::vector<std::string>{"NCCL_IB_HCA=mlx4 of the container's image is replaced by mlx5_3"});
}

TEST(SettleInContainer, TasksGetWhatIsWrittenAndLoseWhatIsRemoved) {
    const auto settled =
        apply_variables(environment({"A=image", "B=image", "C=image", "D=image"}),
                        {variable("A", "ours", VariableAction::Set), variable("B", "users", VariableAction::Restore),
                         variable("C", "users", VariableAction::Keep), variable("D", "", VariableAction::Unset)});
    EXPECT_EQ(settled.get("A"), "ours");
    EXPECT_EQ(settled.get("B"), "users");
    EXPECT_EQ(settled.get("C"), "image") << "it is there already, or would be restored";
    EXPECT_FALSE(settled.get("D"));
}

TEST(SettleInContainer, AnEmptyValueOfTheUserIsOneToo) {
    const auto settled = settle_in_container({variable("NCCL_IB_HCA", "", VariableAction::Keep)},
                                             environment({"NCCL_IB_HCA="}), environment({"NCCL_IB_HCA=mlx4"}));
    EXPECT_EQ(settled.variables.front().action, VariableAction::Restore);
    EXPECT_EQ(settled.notes,
              std::vector<std::string>{"NCCL_IB_HCA=mlx4 of the container's image is replaced by an empty value"});
}

TEST(SettleInContainer, WhatNcclChoosesBetterIsRemovedOnlyIfItIsTheImages) {
    const std::vector<Variable> planned = {variable("NCCL_IB_GID_INDEX", "", VariableAction::Leave)};
    const auto image = settle_in_container(planned, environment({}), environment({"NCCL_IB_GID_INDEX=3"}));
    EXPECT_EQ(image.variables.front().action, VariableAction::Unset);
    EXPECT_EQ(image.notes, std::vector<std::string>{"NCCL_IB_GID_INDEX=3 of the container's image is removed"});
    const auto users = environment({"NCCL_IB_GID_INDEX=3"});
    const auto outside = settle_in_container(planned, users, users);
    EXPECT_EQ(outside.variables, planned);
    EXPECT_TRUE(outside.notes.empty());
}

TEST(SettleInContainer, OtherVariablesOfTheImageAreNamed) {
    const auto settled = settle_in_container({}, environment({"NCCL_DEBUG=WARN", "A=1"}),
                                             environment({"NCCL_DEBUG=WARN", "NCCL_ALGO=Ring", "A=2"}));
    EXPECT_EQ(settled.notes, std::vector<std::string>{"NCCL_ALGO=Ring is of the container's image"});
}

/// A container of a node with one used HCA, without what is not asked for.
class Container : public testing::Test {
protected:
    Container() {
        tree.directory("/sys/class/infiniband/mlx5_0").file("/dev/infiniband/uverbs0", "");
        tree.file("/usr/lib64/libibverbs.so.1", "").file("/usr/lib64/libibverbs/libmlx5-rdmav34.so", "");
        Hca hca;
        hca.name = "mlx5_0";
        hca.driver = "mlx5_core";
        hca.device_file = "/dev/infiniband/uverbs0";
        fabric.hcas = {hca};
        PortChoice port;
        port.hca = "mlx5_0";
        port.port = 1;
        port.rule = PortRule::Used;
        choice.ports = {port};
    }
    [[nodiscard]] std::vector<std::string> judge(const Environment& environment = {}) const {
        return judge_container(inspect_container(tree.root(), fabric, choice, environment));
    }

    test::Tree tree;
    Fabric fabric;
    FabricChoice choice;
};

TEST_F(Container, IsGood) {
    EXPECT_TRUE(judge().empty()) << judge().front();
}

TEST_F(Container, LacksAnHca) {
    tree.remove("/sys/class/infiniband/mlx5_0");
    ASSERT_EQ(judge().size(), 1U);
    EXPECT_TRUE(judge()[0].starts_with("the container's /sys/class/infiniband lacks HCAs (mlx5_0): ")) << judge()[0];
}

TEST_F(Container, LacksADeviceFile) {
    tree.remove("/dev/infiniband/uverbs0");
    ASSERT_EQ(judge().size(), 1U);
    EXPECT_TRUE(judge()[0].starts_with("the container cannot open device files (/dev/infiniband/uverbs0): "));
}

TEST_F(Container, LacksTheLibrary) {
    tree.remove("/usr/lib64/libibverbs.so.1");
    ASSERT_EQ(judge().size(), 1U);
    EXPECT_TRUE(judge()[0].starts_with("the container's image has no libibverbs.so.1: NCCL will use sockets"));
    tree.file("/opt/lib/libibverbs.so.1", "");
    EXPECT_TRUE(judge(environment({"LD_LIBRARY_PATH=relative:/opt/lib"})).empty());
}

TEST_F(Container, LacksTheProvider) {
    tree.remove("/usr/lib64/libibverbs/libmlx5-rdmav34.so");
    ASSERT_EQ(judge().size(), 1U);
    tree.file("/usr/lib64/libibverbs/libmlx4-rdmav34.so", "");
    ASSERT_EQ(judge().size(), 1U);
    EXPECT_TRUE(judge()[0].starts_with("the container's libibverbs has no provider for HCAs (mlx5_0): "));
    fabric.hcas[0].driver = "unheard_of";
    EXPECT_TRUE(judge().empty());
}

/// Soft-RoCE, Soft-iWARP.
TEST_F(Container, LacksTheProviderOfASoftwareDevice) {
    fabric.hcas[0].driver = "";
    for (const auto& [type, provider] : {std::pair("CA", "rxe"), std::pair("RNIC", "siw")}) {
        fabric.hcas[0].node_type = type;
        ASSERT_EQ(judge().size(), 1U);
        EXPECT_TRUE(judge()[0].starts_with("the container's libibverbs has no provider for HCAs (mlx5_0): "));
        tree.file(format_text("/usr/lib64/libibverbs/lib{}-rdmav34.so", provider), "");
        EXPECT_TRUE(judge().empty());
    }
}

TEST_F(Container, OnlyUsedHcasCount) {
    tree.remove("/dev/infiniband/uverbs0");
    choice.ports[0].rule = PortRule::NotActive;
    EXPECT_TRUE(judge().empty());
}

TEST_F(Container, LacksAPlugin) {
    EXPECT_TRUE(judge(environment({"NCCL_NET_PLUGIN=none", "NCCL_TUNER_PLUGIN=/no/matter.so"})).empty());
    EXPECT_TRUE(judge(environment({"NCCL_NET_PLUGIN=below/the/programs.so"})).empty()) << "cannot be told";
    const auto missing = judge(environment({"NCCL_NET_PLUGIN=spcx,none,/opt/net.so"}));
    ASSERT_EQ(missing.size(), 1U);
    EXPECT_TRUE(missing[0].starts_with("the container's image lacks NCCL's plugins for the network "
                                       "(NCCL_NET_PLUGIN=spcx, NCCL_NET_PLUGIN=/opt/net.so): "))
        << missing[0];
    tree.file("/usr/lib/libnccl-net-spcx.so", "").file("/opt/net.so", "");
    EXPECT_TRUE(judge(environment({"NCCL_NET_PLUGIN=spcx,none,/opt/net.so"})).empty());
}

TEST_F(Container, LacksAFileThatAVariableNames) {
    const auto variables = environment({"NCCL_TOPO_FILE=/opt/topo.xml", "RDMA_NCCL_HOSTS=mount"});
    ASSERT_EQ(judge(variables).size(), 1U);
    EXPECT_EQ(judge(variables)[0],
              "the container lacks files that variables name (NCCL_TOPO_FILE=/opt/topo.xml): mount "
              "them at the same place");
    tree.file("/opt/topo.xml", "");
    EXPECT_TRUE(judge(variables).empty());
}

TEST_F(Container, LacksAwsOfiNccl) {
    fabric.hcas[0].driver = "efa";
    choice.ports[0].rule = PortRule::Efa;
    tree.file("/usr/lib64/libibverbs/libefa-rdmav34.so", "");
    ASSERT_TRUE(choice.is_efa());
    ASSERT_EQ(judge().size(), 1U);
    EXPECT_TRUE(judge()[0].starts_with("the container's image has no aws-ofi-nccl ")) << judge()[0];
    tree.file("/opt/net.so", "");
    EXPECT_TRUE(judge(environment({"NCCL_NET_PLUGIN=/opt/net.so"})).empty());
    tree.file("/usr/lib64/libnccl-net-ofi.so", "");
    EXPECT_TRUE(judge().empty());
}

TEST(JudgeContainer, NamesASmallShm) {
    ContainerFacts facts;
    facts.shm_mib = 64;
    EXPECT_EQ(judge_container(facts).size(), 1U);
    facts.shm_mib = 1024;
    EXPECT_TRUE(judge_container(facts).empty());
}

} // namespace
} // namespace rdma_nccl
