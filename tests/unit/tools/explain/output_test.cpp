// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

/// Whether a profile is for this machine or not.
TEST(ExplainText, ShowsTheFaultsOfFabricProfilesWithTheirLines) {
    NodePlan node;
    node.plan.leave_alone = true;
    EXPECT_EQ(explain_text(node, "n01").find("fabric profile"), std::string::npos);
    node.facts.fabric_profile_faults = {"a.conf:2: a fault\n    x\n    ^", "b.conf: is long"};
    const std::string faults = "  a.conf:2: a fault\n      x\n      ^\n  b.conf: is long\n";
    EXPECT_NE(explain_text(node, "n01").find("\nfabric profile\n" + faults), std::string::npos);
    node.plan.fabric_profile = PlannedFabricProfile{"p.conf", "gpus 8", "", {}};
    EXPECT_NE(explain_text(node, "n01").find("\nfabric profile\n  p.conf: gpus 8\n" + faults), std::string::npos);
}

} // namespace
} // namespace rdma_nccl
