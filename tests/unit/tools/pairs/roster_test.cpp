// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tests/unit/pairs_report.h"
#include "tools/measure/rails.h"
#include "tools/pairs/output.h"
#include "tools/pairs/pairs.h"
#include "tools/pairs/roster.h"

#include <gtest/gtest.h>

namespace rdma_nccl::pairs {
namespace {

measure::World world_of(unsigned workers) {
    measure::World world;
    world.workers = workers;
    return world;
}

Json hello(unsigned node, unsigned local = 0) {
    return {{"local", local}, {"node", written(test::node_with_rails(node))}};
}

std::vector<std::string> names(const NodeRoster& roster) {
    std::vector<std::string> names;
    for (const auto& node : roster.nodes()) {
        names.push_back(node.name);
    }
    return names;
}

TEST(NodeRoster, TheFirstTaskOfEachNodeWorks) {
    const auto world = world_of(4);
    NodeRoster roster(world);
    for (unsigned worker = 4; worker-- > 0;) {
        EXPECT_FALSE(roster.complete());
        roster.join(worker, hello(worker / 2, worker % 2));
    }
    EXPECT_TRUE(roster.complete());
    roster.close("late");
    EXPECT_EQ(names(roster), (std::vector<std::string>{"n01", "n02"}));
    EXPECT_EQ(roster.worker_of(1), 2U);
    EXPECT_EQ(roster.node_of(2), 1U);
    EXPECT_FALSE(roster.node_of(1));
}

TEST(NodeRoster, WhoDoesNotComeHasTheStepsName) {
    auto world = world_of(3);
    world.nodes = {"n01", "n02", "n03"};
    NodeRoster roster(world);
    roster.join(0, hello(0));
    EXPECT_EQ(roster.missing(), "n02, n03");
    EXPECT_EQ(roster.missing(1), "n02 and 1 more");
    roster.join(2, hello(2));
    roster.close("it did not come");
    EXPECT_EQ(names(roster), (std::vector<std::string>{"n01", "n03", "n02"}));
    EXPECT_EQ(roster.nodes()[2].problem, "it did not come");
    EXPECT_EQ(roster.worker_of(2), 1U);
}

TEST(NodeRoster, OfANodeWithSeveralTasksOneMayStayAway) {
    auto world = world_of(4);
    world.nodes = {"n01", "n01", "n02", "n02"};
    NodeRoster roster(world);
    roster.join(0, hello(0, 0));
    roster.join(2, hello(1, 0));
    roster.join(3, hello(1, 1));
    EXPECT_EQ(roster.missing(), "n01");
    roster.close("it did not come");
    EXPECT_EQ(names(roster), (std::vector<std::string>{"n01", "n02"}));
}

TEST(NodeRoster, WhoIsMissingOfThousandsIsCounted) {
    auto world = world_of(8000);
    for (unsigned node = 0; node < 1000; ++node) {
        world.nodes.insert(world.nodes.end(), 8, test::node_with_rails(node).name);
    }
    NodeRoster roster(world);
    EXPECT_TRUE(roster.missing(1).ends_with(" and 999 more"));
}

TEST(NodeRoster, EndedBeforeAllAreThere) {
    const auto world = world_of(3);
    NodeRoster roster(world);
    roster.join(1, hello(1));
    roster.close("");
    EXPECT_EQ(names(roster), std::vector<std::string>{"n02"});
}

TEST(NodeRoster, ANodeOfAnotherVersionTakesNoPart) {
    auto world = world_of(3);
    world.nodes = {"n01", "n02", "n03"};
    NodeRoster roster(world);
    roster.join(0, hello(0));
    auto later = hello(1);
    later["node"]["rdma_nccl"] = {{"version", "9.8.7"}, {"protocol", 99}};
    roster.join(1, later);
    auto first = hello(2); // 0.1 did not tell
    first["node"].erase("rdma_nccl");
    roster.join(2, first);
    roster.close("");
    const std::string here =
        ", the head runs " + own_release().version + " (protocol 2): install the same on all nodes";
    EXPECT_EQ(roster.nodes()[0].problem, "");
    EXPECT_EQ(roster.nodes()[1].problem, "it runs rdma-nccl 9.8.7 (protocol 99)" + here);
    EXPECT_EQ(roster.nodes()[2].problem, "it runs rdma-nccl 0.1 (protocol 2)" + here);
}

TEST(NodeRoster, NodesOfOneNameAreToldApart) {
    const auto world = world_of(2);
    NodeRoster roster(world);
    roster.join(0, hello(0));
    roster.join(1, hello(0));
    roster.close("late");
    EXPECT_EQ(names(roster), (std::vector<std::string>{"n01", "n01#2"}));
    Report report;
    report.nodes = roster.nodes();
    Verdict verdict;
    verdict.suspects = {1};
    EXPECT_EQ(suspects_hostlist(report, verdict), "n01") << "the name that Slurm knows";
}

TEST(NodeRoster, HostileHellos) {
    const auto world = world_of(3);
    NodeRoster roster(world);
    roster.join(0, Json::object());
    roster.join(1, {{"local", -1}, {"node", {{"name", "\x1b[2J"}, {"problem", ""}, {"rails", Json::array()}}}});
    roster.join(2, {{"local", "x"}, {"node", 5}});
    roster.close("late");
    ASSERT_EQ(roster.nodes().size(), 3U);
    EXPECT_NE(roster.nodes()[0].problem, "");
    EXPECT_EQ(roster.nodes()[1].name, "member 1") << "no name of ours";
}

TEST(NodeRoster, TheLostAndTheSilentAreNotAskedAgain) {
    const auto world = world_of(2);
    NodeRoster roster(world);
    roster.join(0, hello(0));
    roster.join(1, hello(1));
    roster.close("late");
    roster.note_timeout(0);
    EXPECT_TRUE(roster.was_unresponsive(0));
    EXPECT_FALSE(roster.why_unusable(0)) << "once may be chance";
    roster.note_answer(0);
    roster.note_timeout(0);
    EXPECT_FALSE(roster.why_unusable(0)) << "it was heard of meanwhile";
    roster.note_timeout(0);
    EXPECT_EQ(roster.why_unusable(0), "n01 does not answer");
    roster.lose(1, "its process has ended");
    EXPECT_EQ(roster.why_unusable(1), "n02 is gone: its process has ended");
}

TEST(PairsHead, PlansTheRailsThatAreWanted) {
    std::vector<measure::Node> nodes{test::node_with_rails(0, 2), test::node_with_rails(1, 2),
                                     test::node_with_rails(2, 1)};
    Options options;
    const auto count = [&](const std::string& schedule) {
        std::size_t pairings = 0;
        for (const auto& round : plan_rounds(options, schedule, nodes)) {
            EXPECT_FALSE(round.empty());
            pairings += round.size();
        }
        return pairings;
    };
    EXPECT_EQ(count("all"), 4U); // rail 0: three pairs, rail 1: one
    EXPECT_EQ(count("loopback"), 5U);
    options.only_rail = 1;
    EXPECT_EQ(count("all"), 1U);
    options.only_rail.reset();
    options.rails = RailPairing::Cross;
    EXPECT_EQ(count("all"), 8U); // 4 + 2 + 2
    nodes[1].rails.clear();
    EXPECT_EQ(count("all"), 2U);
}

TEST(PairsHead, SaysBeforeHowLongItTakes) {
    const std::vector<measure::Node> nodes{test::node_with_rails(0), test::node_with_rails(1),
                                           measure::Node{"n03", {}, "no RDMA device"}};
    const auto rounds = plan_rounds({}, "all", nodes);
    EXPECT_EQ(announce("all", nodes, rounds, {}),
              "3 nodes (1 without RDMA), 1 rail, all pairs: 1 round, 1 pairing, about 7 s");
}

} // namespace
} // namespace rdma_nccl::pairs
