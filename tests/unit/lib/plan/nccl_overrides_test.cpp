// SPDX-License-Identifier: Apache-2.0
// What the user's own NCCL variables do is told; they stay all the same.
#include "lib/plan/nccl_variables.h"

#include "lib/plan/plan.h"
#include "tests/unit/fabric_values.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using test::add_roce;
using test::port_of;

/// Two rails, and mlx5_2 on the interface with the default route.
NodeFacts node() {
    NodeFacts facts;
    add_roce(facts.fabric, "mlx5_0", "eth0", "10.0.0.1");
    add_roce(facts.fabric, "mlx5_1", "eth1", "10.0.1.1");
    add_roce(facts.fabric, "mlx5_2", "eth2", "10.0.2.1");
    facts.fabric.default_route_netdevs = {"eth2"};
    return facts;
}

using Texts = std::vector<std::string>;

Texts warnings(const NodeFacts& facts) {
    return judge_nccl_overrides(facts, make_plan(facts, {}).fabric);
}

Texts warnings_with(const std::string& name, const std::string& value) {
    NodeFacts facts = node();
    facts.environment.set(name, value);
    return warnings(facts);
}

TEST(NcclConf, IsReadWhereNcclReadsIt) {
    test::Tree tree;
    tree.file("/home/user/.nccl.conf", "FILE=home\n").file("/scratch/own.conf", "FILE=own\n");
    tree.file("/etc/nccl.conf", "FILE=etc\nSITE=1\n");
    const auto file = [&](std::vector<std::string> variables) {
        const auto conf = read_nccl_conf(tree.root(), Environment(variables), "/home/user");
        EXPECT_EQ(conf.at("SITE").value, "1");
        return conf.at("FILE").value;
    };
    EXPECT_EQ(file({}), "home");
    EXPECT_EQ(file({"NCCL_CONF_FILE="}), "home") << "an empty name counts as none (setEnvFile, NCCL 2.30)";
    EXPECT_EQ(file({"NCCL_CONF_FILE=/scratch/own.conf"}), "own");
    EXPECT_EQ(file({"NCCL_CONF_FILE=own.conf", "PWD=/scratch"}), "own");
    EXPECT_EQ(file({"NCCL_CONF_FILE=own.conf"}), "etc");
    EXPECT_EQ(file({"NCCL_CONF_FILE=/none"}), "etc");
}

TEST(NcclConf, IsRcclsOnANodeWithAmdsGpus) {
    test::Tree tree;
    tree.file("/etc/nccl.conf", "FILE=nccl\n").file("/etc/rccl.conf", "FILE=rccl\n");
    tree.file("/home/user/.rccl.conf", "HOME=rccl\n");
    const auto conf = [&] { return read_nccl_conf(tree.root(), Environment(), "/home/user"); };
    EXPECT_EQ(conf().at("FILE").value, "nccl");
    tree.directory("/sys/class/kfd/kfd");
    EXPECT_EQ(conf().at("FILE").file, "/etc/rccl.conf");
    EXPECT_EQ(conf().at("HOME").file, "/home/user/.rccl.conf");
    tree.file("/proc/driver/nvidia/version", "NVRM\n");
    EXPECT_EQ(conf().at("FILE").value, "nccl") << "AMD's are the processors'";
}

TEST(UsersNccl, NothingToSay) {
    EXPECT_EQ(warnings(node()), Texts{});
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"NCCL_IB_GID_INDEX", "3"},
                                                                                      {"NCCL_IB_GID_INDEX", "0x3 "},
                                                                                      {"NCCL_IB_GID_INDEX", "-1"},
                                                                                      {"NCCL_IB_GID_INDEX", ""},
                                                                                      {"NCCL_IB_HCA", "=mlx5_0:1"},
                                                                                      {"NCCL_IB_HCA", "^mlx5_2"},
                                                                                      {"NCCL_SOCKET_IFNAME", "eth"},
                                                                                      {"NCCL_SOCKET_IFNAME", "x"},
                                                                                      {"NCCL_IB_DISABLE", "0"},
                                                                                      {"NCCL_NET", "IB"}}) {
        EXPECT_EQ(warnings_with(name, value), Texts{}) << name << "=" << value;
    }
}

TEST(UsersNccl, AnotherGid) {
    EXPECT_EQ(warnings_with("NCCL_IB_GID_INDEX", "auto"), // which NCCL reads as 0
              Texts{"NCCL_IB_GID_INDEX=auto is set, and gives mlx5_0 port 1 the GID at index 0 "
                    "(fe80::e42:a1ff:fe2b:3c4d) instead of 3 (10.0.0.1): unset it (likewise mlx5_1 port 1)"});
    EXPECT_EQ(warnings_with("NCCL_IB_GID_INDEX", "9").size(), 1U);
    NodeFacts facts = node();
    facts.nccl_conf["NCCL_IB_GID_INDEX"] = {"1", "/etc/nccl.conf"};
    EXPECT_EQ(warnings(facts).at(0).find("NCCL_IB_GID_INDEX=1 (/etc/nccl.conf) is set"), 0U);
    EXPECT_EQ(port_of(make_plan(facts, {}).fabric, "mlx5_0").nccl_effective, 1U);
}

TEST(UsersNccl, TheRuleSteeredElsewhere) {
    NodeFacts facts = node();
    facts.fabric.hcas[1].ports[0].gids.erase(facts.fabric.hcas[1].ports[0].gids.begin()); // v1 at 2, v2 at 3: as before
    facts.fabric.hcas[1].ports[0].gids.back().index = 7;                                  // but the indices differ
    facts.environment.set("NCCL_IB_ROCE_VERSION_NUM", "1");
    const auto choice = make_plan(facts, {}).fabric;
    EXPECT_EQ(port_of(choice, "mlx5_0").nccl_effective, 2U);
    EXPECT_EQ(judge_nccl_overrides(facts, choice).size(), 1U);
}

TEST(UsersNccl, PortsThatCannotBeUsedOrHadBetterNotBe) {
    EXPECT_EQ(warnings_with("NCCL_IB_HCA", "mlx5"),
              Texts{"NCCL_IB_HCA=mlx5 is set, and takes mlx5_2 port 1, which is the management port (eth2 "
                    "has the default route): unset it"});
    EXPECT_EQ(warnings_with("NCCL_IB_HCA", "mlx4_0"),
              Texts{"NCCL_IB_HCA=mlx4_0 is set, and names no ACTIVE port of this node: NCCL uses "
                    "sockets; unset it"});
}

TEST(UsersNccl, RailsAndPlanes) {
    EXPECT_EQ(warnings_with("NCCL_IB_HCA", "=mlx5_0:1:0,mlx5_1:1::1"), Texts{});
    EXPECT_EQ(warnings_with("NCCL_IB_HCA", "=mlx5_0::0,mlx5_1::1"), Texts{});
}

TEST(UsersNccl, OnEfaOnlyWhatKeepsThePluginAway) {
    NodeFacts facts = node();
    for (auto& hca : facts.fabric.hcas) {
        hca.driver = "efa";
    }
    facts.environment.set("NCCL_IB_HCA", "mlx4_0");
    facts.environment.set("NCCL_IB_DISABLE", "1");
    EXPECT_EQ(warnings(facts), Texts());
    EXPECT_EQ(fabric_summary(facts, make_plan(facts, {}).fabric), "3 EFA ports for aws-ofi-nccl");
    for (const auto& [name, text] : {std::pair("NCCL_NET_PLUGIN", "none"), std::pair("NCCL_NET", "Socket")}) {
        NodeFacts with = facts;
        with.environment.set(name, text);
        const auto variable = std::string(name) + "=" + text;
        EXPECT_EQ(warnings(with), Texts{variable + " is set: NCCL uses sockets"});
        EXPECT_EQ(fabric_summary(with, make_plan(with, {}).fabric), "sockets by " + variable);
    }
}

TEST(UsersNccl, AnInterfaceThatIsNotThere) {
    EXPECT_EQ(warnings_with("NCCL_SOCKET_IFNAME", "=bond0"),
              Texts{"NCCL_SOCKET_IFNAME==bond0 is set, and names no interface of this node that is up with "
                    "an address: NCCL fails; unset it"});
}

TEST(UsersNccl, RdmaForbidden) {
    EXPECT_EQ(warnings_with("NCCL_IB_DISABLE", "1"), Texts{"NCCL_IB_DISABLE=1 is set: NCCL uses sockets"});
    EXPECT_EQ(warnings_with("NCCL_NET", "Socket"), Texts{"NCCL_NET=Socket is set: NCCL uses sockets"});
}

TEST(UsersNccl, PlansShowWhatForbidsRdma) {
    NodeFacts facts = node();
    facts.environment.set("NCCL_IB_DISABLE", "1");
    const auto plan = make_plan(facts, {});
    EXPECT_EQ(find_variable(plan.variables, "NCCL_IB_DISABLE")->action, VariableAction::Keep);
    EXPECT_FALSE(plan.warnings.empty());
}

TEST(NoPort, NcclIsToldToTakeNone) {
    NodeFacts facts;
    add_roce(facts.fabric, "siw0", "eth0", "10.0.0.1").node_type = "RNIC";
    EXPECT_EQ(find_variable(make_plan(facts, {}).variables, "NCCL_IB_HCA")->value, "^");
    EXPECT_FALSE(nccl_list_matches("^", "siw0", 1));
    facts.fabric.hcas[0].ports[0].state = "DOWN"; // NCCL passes it over by itself
    EXPECT_EQ(find_variable(make_plan(facts, {}).variables, "NCCL_IB_HCA"), nullptr);
}

struct ListRow {
    const char* list;
    const char* name;
    unsigned port;
    bool matches;
};

TEST(NcclList, AsNcclReadsIt) {
    for (const auto& row : std::vector<ListRow>{{"mlx5_1", "mlx5_10", 1, true},
                                                {"=mlx5_1", "mlx5_10", 1, false},
                                                {"=mlx5_1", "mlx5_1", 2, true},
                                                {"mlx5_1:2", "mlx5_1", 1, false},
                                                {"mlx5_1:2", "mlx5_1", 2, true},
                                                {"mlx5_1:0", "mlx5_1", 1, false},
                                                {"mlx5_1:1:0:0", "mlx5_1", 1, true},
                                                {"mlx5_1:2:1:0", "mlx5_1", 1, false},
                                                {"mlx5_1::1:0", "mlx5_1", 2, true},
                                                {"^mlx5_1:", "mlx5_1", 1, false},
                                                {"^mlx5_1", "mlx5_2", 1, true},
                                                {"^=mlx5_1", "mlx5_10", 1, true},
                                                {"=^mlx5_1", "mlx5_2", 1, false},
                                                {"", "mlx5_1", 1, true},
                                                {"^", "mlx5_1", 1, false},
                                                {",,mlx5_0,", "mlx5_0", 1, true}}) {
        EXPECT_EQ(nccl_list_matches(row.list, row.name, row.port), row.matches) << row.list << " " << row.name;
    }
}

} // namespace
} // namespace rdma_nccl
