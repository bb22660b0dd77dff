// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"
#include "lib/order/network.h"
#include "tools/topo/topo.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

TEST(TopoNetwork, ShowsEachSwitchOnceWithItsNodes) {
    constexpr std::string_view tree = "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1,3]\n"
                                      "SwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[2,4]\n"
                                      "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l[1-2]\n";
    const auto nodes = expand_hostlist("n[1-5]").value();
    EXPECT_EQ(network_text(nodes, places_by_topology(tree, nodes).value()),
              "switch or block              nodes  names\n"
              "spine                            4  n[1-4]\n"
              "  l1                             2  n[1,3]\n"
              "  l2                             2  n[2,4]\n"
              "(none)                           1  n5\n");
    EXPECT_EQ(network_json(nodes, places_by_topology(tree, nodes).value()).dump(),
              R"({"schema":1,"nodes":[{"name":"n1","groups":["spine","l1"]},{"name":"n2","groups":["spine","l2"]},)"
              R"({"name":"n3","groups":["spine","l1"]},{"name":"n4","groups":["spine","l2"]},)"
              R"({"name":"n5","groups":[]}]})");
}

TEST(TopoNetwork, LinesFitIntoTheTerminal) {
    std::vector<std::string> nodes;
    for (unsigned i = 0; i < 100; ++i) {
        nodes.push_back(std::string(i, 'x') + "n");
    }
    const std::string name(60, 's');
    const std::vector<std::optional<NetworkPlace>> places(nodes.size(), NetworkPlace{{name, name, "\x1b[2J"}});
    const auto text = network_text(nodes, places);
    for (const auto line : split(text, '\n')) {
        EXPECT_LE(line.size(), 100U) << line;
        EXPECT_EQ(line.find('\x1b'), std::string_view::npos);
    }
}

} // namespace
} // namespace rdma_nccl
