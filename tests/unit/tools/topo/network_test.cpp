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
    StepNetwork network{nodes, places_by_topology(tree, nodes).value(), {}};
    EXPECT_EQ(network_text(network), "switch or block              nodes  names\n"
                                     "spine                            4  n[1-4]\n"
                                     "  l1                             2  n[1,3]\n"
                                     "  l2                             2  n[2,4]\n"
                                     "(none)                           1  n5\n");
    EXPECT_EQ(
        network_json(network).dump(),
        R"({"schema":1,"nodes":[{"name":"n1","groups":["spine","l1"],"rails":null},)"
        R"({"name":"n2","groups":["spine","l2"],"rails":null},{"name":"n3","groups":["spine","l1"],"rails":null},)"
        R"({"name":"n4","groups":["spine","l2"],"rails":null},{"name":"n5","groups":[],"rails":null}]})");
}

TEST(TopoNetwork, ShowsTheSameRailsOnce) {
    const NodeRails usual{"by network", {{"mlx5_2:1", 0}, {"mlx5_3:1", 1}}};
    const NodeRails crossed{"by network", {{"mlx5_2:1", 1}, {"mlx5_3:1", 0}}};
    const StepNetwork network{{"n1", "n2", "n3", "n4"},
                              NetworkPlaces(4, NetworkPlace{{"l1"}}),
                              {{"n1", usual}, {"n2", crossed}, {"n3", usual}, {"n4", {}}}};
    EXPECT_EQ(network_text(network), "switch or block              nodes  names\n"
                                     "l1                               4  n[1-4]\n"
                                     "\nrails of n[1,3] by network: mlx5_2:1=0, mlx5_3:1=1\n"
                                     "\nrails of n2 by network: mlx5_2:1=1, mlx5_3:1=0\n");
    EXPECT_EQ(network_json(network).at("nodes").at(1).at("rails").dump(),
              R"({"why":"by network","ports":[{"port":"mlx5_2:1","rail":1},{"port":"mlx5_3:1","rail":0}]})");
}

TEST(TopoNetwork, ANodeReportsItsRails) {
    const NodeRails rails{"by network", {{"mlx5_2:1", 0}, {"mlx5_3:1", 1}}};
    EXPECT_EQ(read_rails(write_rails("n1", rails)), std::pair(std::string("n1"), rails));
    for (const auto* const text : {"", "{}", "[1]", R"({"node":1,"why":"","ports":[]})",
                                   R"({"node":"n1","why":"","ports":[{"port":"mlx5_2:1","rail":-1}]})"}) {
        EXPECT_EQ(read_rails(text), std::nullopt) << text;
    }
}

TEST(TopoNetwork, LinesFitIntoTheTerminal) {
    StepNetwork network;
    const std::string name(60, 's');
    for (unsigned i = 0; i < 100; ++i) {
        network.nodes.push_back(std::string(i, 'x') + "n");
        network.places.push_back(NetworkPlace{{name, name, "\x1b[2J"}});
        network.rails[network.nodes.back()] = {"by \x1b[2J", {{"mlx5_2:1", 0}, {"\x1b[2J", 1}}};
    }
    const auto text = network_text(network);
    for (const auto line : split(text, '\n')) {
        EXPECT_LE(line.size(), 100U) << line;
        EXPECT_EQ(line.find('\x1b'), std::string_view::npos);
    }
}

} // namespace
} // namespace rdma_nccl
