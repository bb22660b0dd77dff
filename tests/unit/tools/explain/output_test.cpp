// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

/// Whether a profile is for this machine or not.
TEST(ExplainText, ShowsTheFaultsOfFabricProfilesWithTheirLines) {
    NodePlan node;
    node.plan.leave_alone = true;
    EXPECT_EQ(explain_text({node, "n01", {}}).find("fabric profile"), std::string::npos);
    node.facts.fabric_profile_faults = {"a.conf:2: a fault\n    x\n    ^", "b.conf: is long"};
    const std::string faults = "  a.conf:2: a fault\n      x\n      ^\n  b.conf: is long\n";
    EXPECT_NE(explain_text({node, "n01", {}}).find("\nfabric profile\n" + faults), std::string::npos);
    node.plan.fabric_profile = PlannedFabricProfile{"p.conf", "gpus 8", "", {}};
    EXPECT_NE(explain_text({node, "n01", {}}).find("\nfabric profile\n  p.conf: gpus 8\n" + faults), std::string::npos);
}

TEST(ExplainText, ShowsTheOrderByTheNetworkAndWhatARingGains) {
    const auto place = [](std::string leaf) { return std::optional(NetworkPlace{{"spine", std::move(leaf)}}); };
    Explained explained{{},
                        "n01",
                        order::order_nodes({"n1", "n2", "n3", "n4"}, {1, 1, 1, 1}, "scontrol show topology",
                                           NetworkPlaces{place("a"), place("b"), place("a"), place("b")})};
    explained.node.plan.leave_alone = true;
    EXPECT_NE(explain_text(explained).find(R"(
order by the network
  n1,n3,n2,n4
  4 nodes, scontrol show topology: a ring of nodes leaves its switches or blocks 2 times, not 4
  DEPTH  CROSSINGS  IN SLURM'S ORDER
  1      0          0
  2      2          4
)"),
              std::string::npos)
        << explain_text(explained);
    EXPECT_EQ(explain_json(explained).at("order").at("crossings_before").at(1).integer<unsigned>(), 4U);
    explained.order = order::order_nodes({"n1"}, {1}, "scontrol show topology", fail("it names no switch"));
    EXPECT_NE(explain_text(explained).find("\norder by the network\n  n1\n  1 node, scontrol show topology: the order "
                                           "stays as given: it names no switch\n\n"),
              std::string::npos);
    explained.order = order::order_nodes({}, {}, "scontrol show topology", fail("there are several lists of nodes"));
    EXPECT_NE(explain_text(explained).find("\norder by the network\n  not known: there are several lists of nodes\n\n"),
              std::string::npos)
        << explain_text(explained);
    explained.order.reset();
    EXPECT_TRUE(explain_json(explained).at("order").is_null());
}

} // namespace
} // namespace rdma_nccl
