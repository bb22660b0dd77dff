// SPDX-License-Identifier: Apache-2.0
#include "lib/plan/nccl_variables.h"

#include "lib/base/lists.h"
#include "tests/unit/fabric_values.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using test::add_roce;
using Names = std::vector<std::string>;

/// Two rails, and mlx5_2 on the interface with the default route.
NodeFacts node() {
    NodeFacts facts;
    add_roce(facts.fabric, "mlx5_0", "eth0", "10.0.0.1");
    add_roce(facts.fabric, "mlx5_1", "eth1", "10.0.1.1");
    add_roce(facts.fabric, "mlx5_2", "eth2", "10.0.2.1");
    facts.fabric.default_route_netdevs = {"eth2"};
    return facts;
}

Names in_use(const NodeFacts& facts) {
    return mapped(ports_in_use(facts, make_plan(facts, {}).fabric), &PortInUse::name);
}

TEST(PortsInUse, AreThePlansUnlessTheUserNamesSome) {
    auto facts = node();
    EXPECT_EQ(in_use(facts), (Names{"mlx5_0:1", "mlx5_1:1"}));
    facts.environment.set("NCCL_IB_HCA", "=mlx5_2:1");
    EXPECT_EQ(in_use(facts), Names{"mlx5_2:1"});
    facts.environment.set("NCCL_IB_HCA", "^mlx5_0");
    EXPECT_EQ(in_use(facts), (Names{"mlx5_1:1", "mlx5_2:1"}));
}

TEST(PortsInUse, AFileOfNcclsCountsAsTheUser) {
    auto facts = node();
    facts.nccl_conf["NCCL_IB_HCA"] = {"mlx5_1", "/etc/nccl.conf"};
    EXPECT_EQ(in_use(facts), Names{"mlx5_1:1"});
}

TEST(PortsInUse, AnEmptyListIsEveryPortThatNcclOpens) {
    auto facts = node();
    facts.environment.set("NCCL_IB_HCA", "");
    facts.fabric.hcas[1].ports[0].state = "DOWN";
    facts.fabric.hcas[0].ports[0].link_layer = LinkLayer::Unknown;
    EXPECT_EQ(in_use(facts), Names{"mlx5_2:1"});
}

} // namespace
} // namespace rdma_nccl
