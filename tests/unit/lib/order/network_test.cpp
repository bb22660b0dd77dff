// SPDX-License-Identifier: Apache-2.0
#include "lib/order/network.h"

#include "lib/base/text.h"

#include <gtest/gtest.h>
#include <random>

namespace rdma_nccl {
namespace {

using Groups = std::vector<std::string>;

std::vector<std::string> named(std::string_view hostlist) {
    return expand_hostlist(hostlist).value();
}
/// "s1/l1 s1/l2 -": the groups of each node, "-" without a place.
std::string text_of(const NetworkPlaces& places) {
    std::vector<std::string> texts;
    for (const auto& place : places) {
        texts.push_back(place ? joined(place->groups, "/") : "-");
    }
    return joined(texts, " ");
}

// As Slurm 22.05 and 26.05 print it.
constexpr std::string_view tree = "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[01,03]\n"
                                  "SwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[02,04]\n"
                                  "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[01-04] Switches=l[1-2]\n";

TEST(SlurmTopology, OfATreeNamesSwitchesFromTheOutermostOne) {
    EXPECT_EQ(text_of(places_by_topology(tree, named("n[01-02,04]")).value()), "spine/l1 spine/l2 spine/l2");
    EXPECT_EQ(text_of(places_by_topology(tree, named("n[04-05]")).value()), "spine/l2 -") << "n05 is in no switch";
    EXPECT_EQ(text_of(places_by_topology(tree, named("x")).value()), "-");
}

TEST(SlurmTopology, OfTwoSwitchesAtALevelHasBoth) {
    const auto both = std::string(tree) + "SwitchName=l3 Level=0 LinkSpeed=1 Nodes=n03\n";
    EXPECT_EQ(text_of(places_by_topology(both, named("n[01,03]")).value()), "spine/l1 spine/l1,l3");
}

TEST(SlurmTopology, OfASwitchThatLacksALevelLeavesItEmpty) {
    const auto far =
        std::string(tree) + "SwitchName=far Level=0 LinkSpeed=1 Nodes=n09\nSwitchName=e Level=2 LinkSpeed=1\n";
    EXPECT_EQ(places_by_topology(far, named("n09")).value().front()->groups, (Groups{"", "", "far"}));
}

TEST(SlurmTopology, OfBlocksGoesByTheirSizes) {
    constexpr std::string_view blocks = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
                                        "BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
                                        "BlockName=b3 BlockIndex=2 Nodes=n5 BlockSize=2\n"
                                        "AggregatedBlock=b[1-2] BlockIndex=3 Nodes=n[1-4] BlockSize=4\n";
    const auto places = places_by_topology(blocks, named("n[1,4-5]")).value();
    EXPECT_EQ(places[0]->groups, (Groups{"b[1-2]", "b1"}));
    EXPECT_EQ(places[1]->groups, (Groups{"b[1-2]", "b2"}));
    EXPECT_EQ(places[2]->groups, (Groups{"", "b3"}));
}

TEST(SlurmTopology, OfBlocksBefore2411HasNoSizes) {
    EXPECT_EQ(text_of(places_by_topology("BlockName=b1 BlockIndex=0 Nodes=n[1,3]\nBlockName=b2 BlockIndex=1 Nodes=n2\n",
                                         named("n[1-3]"))
                          .value()),
              "b1 b2 b1");
}

TEST(SlurmTopology, LargerThanAnyNetworkIsRefused) {
    std::string levels;
    for (unsigned level = 0; level < 40; ++level) {
        levels += "SwitchName=s Level=" + std::to_string(level) + " Nodes=n1\n";
    }
    EXPECT_FALSE(places_by_topology(levels, named("n1")));
    std::string names;
    for (unsigned i = 0; i < 100; ++i) {
        names += "SwitchName=s Level=0 Nodes=n[1-65000]\n";
    }
    EXPECT_FALSE(places_by_topology(names, named("n1")));
}

TEST(SlurmTopology, WithoutASwitchOrBlockIsAnError) {
    EXPECT_FALSE(places_by_topology("", named("n1")));
    const auto none = places_by_topology("slurm_load_topo error: No topology information available\n", named("n1"));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message,
              "it names no switch or block: slurm_load_topo error: No topology information available");
    EXPECT_FALSE(places_by_topology("TorusName=t Dims=2x2x2\n", named("n1")));
}

TEST(SlurmTopology, ThatIsMalformedIsAnErrorAndNotHalfOfIt) {
    for (const auto* const bad : {"SwitchName=l1 LinkSpeed=1 Nodes=n[1-2]", "SwitchName=l1 Level=x Nodes=n1",
                                  "SwitchName=l1 Level=0 Nodes=n[1-",
                                  "BlockName=b1 Nodes=n1 BlockSize=", "BlockName=b1 BlockSize=-1 Nodes=n1"}) {
        const auto places = places_by_topology(std::string(tree) + bad, named("n01"));
        ASSERT_FALSE(places) << bad;
        EXPECT_NE(places.error().message.find("malformed"), std::string::npos) << bad;
    }
}

TEST(SlurmTopology, OfTenThousandNodesIsRead) {
    std::string text;
    for (unsigned leaf = 0; leaf < 500; ++leaf) {
        text += "SwitchName=l" + std::to_string(leaf) + " Level=0 LinkSpeed=1 Nodes=n[" + std::to_string(leaf * 20) +
                "-" + std::to_string(leaf * 20 + 19) + "]\n";
    }
    const auto places = places_by_topology(text, named("n[0-9999]")).value();
    EXPECT_EQ(places.front()->groups, Groups{"l0"});
    EXPECT_EQ(places.back()->groups, Groups{"l499"});
}

/// Latencies of 1.5 us in a leaf, 2.1 in a pod and 3 beyond, with up to 6 % added at random; node i is in leaf i % 4,
/// and leaves 0 and 1 are in pod 0.
std::vector<NodeLatency> of_pods(std::size_t count, double most_noise = 0.06) {
    std::mt19937 random(1); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in each run
    std::uniform_real_distribution<double> noise(1, 1 + most_noise);
    std::vector<NodeLatency> latencies;
    for (std::size_t a = 0; a < count; ++a) {
        for (std::size_t b = a + 1; b < count; ++b) {
            const bool one_pod = (a % 4) / 2 == (b % 4) / 2;
            latencies.push_back({a, b, (a % 4 == b % 4 ? 1.5 : one_pod ? 2.1 : 3) * noise(random)});
        }
    }
    return latencies;
}

constexpr const char* pods = "group1/group1 group1/group2 group2/group3 group2/group4";

TEST(LatencyGroups, TellsLeavesAndPods) {
    const auto places = places_by_latency(16, of_pods(16)).value();
    EXPECT_EQ(text_of({places.begin(), places.begin() + 4}), pods);
    for (std::size_t i = 4; i < 16; ++i) {
        EXPECT_EQ(places[i], places[i % 4]);
    }
}

TEST(LatencyGroups, OneSlowPairOfALeafChangesNothing) {
    auto latencies = of_pods(16);
    latencies[3].us = 9; // nodes 0 and 4
    EXPECT_EQ(latencies[3].b, 4U);
    const auto places = places_by_latency(16, latencies).value();
    EXPECT_EQ(text_of({places.begin(), places.begin() + 4}), pods);
}

TEST(LatencyGroups, ANodeThatWasNotMeasuredHasNoPlace) {
    auto latencies = of_pods(16);
    std::erase_if(latencies, [](const NodeLatency& pair) { return pair.a == 0 || pair.b == 0; });
    const auto places = places_by_latency(16, latencies).value();
    EXPECT_FALSE(places[0]);
    EXPECT_EQ(text_of({places.begin() + 1, places.begin() + 5}),
              "group1/group1 group2/group2 group2/group3 group1/group4");
}

TEST(LatencyGroups, OfNodesThatAreEquallyFarMakesNoGroups) {
    std::vector<NodeLatency> equal;
    for (std::size_t a = 0; a < 8; ++a) {
        for (std::size_t b = a + 1; b < 8; ++b) {
            equal.push_back({a, b, 2 + 0.01 * static_cast<double>(a * b)});
        }
    }
    EXPECT_FALSE(places_by_latency(8, equal));
    EXPECT_FALSE(places_by_latency(2, {{0, 1, 2.0}}));
}

TEST(LatencyGroups, OnePairThatIsNearerMakesNoGroups) {
    auto latencies = of_pods(16);
    for (auto& pair : latencies) {
        pair.us = 2;
    }
    latencies[0].us = 1;
    EXPECT_FALSE(places_by_latency(16, latencies)) << "most nodes would be alone";
}

TEST(LatencyGroups, OfAChainMakesNoGroups) { // each is near the next, but the ends are far apart
    std::vector<NodeLatency> chain;
    for (std::size_t a = 0; a < 12; ++a) {
        for (std::size_t b = a + 1; b < 12; ++b) {
            chain.push_back({a, b, a / 6 == b / 6 ? 1 + 0.5 * static_cast<double>(b - a - 1) : 1.4});
        }
    }
    EXPECT_FALSE(places_by_latency(12, chain));
}

/// Adds to all latencies of a node.
std::vector<NodeLatency> with_slow_node(std::vector<NodeLatency> latencies, std::size_t slow, double us) {
    for (auto& pair : latencies) {
        pair.us += pair.a == slow || pair.b == slow ? us : 0;
    }
    return latencies;
}

TEST(LatencyGroups, ANodeWithASlowHcaIsAloneAndMakesNoRingWorse) {
    constexpr std::size_t leaves = 4;
    for (const double us : {0.3, 1.0, 5.0}) {
        std::vector<NodeLatency> latencies;
        NetworkPlaces truth;
        for (std::size_t a = 0; a < 16; ++a) {
            truth.push_back(NetworkPlace{{std::to_string(a / leaves)}});
            for (std::size_t b = a + 1; b < 16; ++b) {
                latencies.push_back({a, b, a / leaves == b / leaves ? 1.0 : 1.6});
            }
        }
        const auto places = places_by_latency(16, with_slow_node(latencies, 5, us)).value();
        NetworkPlaces ordered;
        for (const auto node : order_by_place(places).order) {
            ordered.push_back(truth[node]);
        }
        EXPECT_EQ(order_by_place(ordered).before, Crossings{4}) << us;
    }
}

TEST(LatencyGroups, OneNodeApartFromAllOthersIsNoGroup) {
    auto latencies = of_pods(16);
    for (auto& pair : latencies) {
        pair.us = 2;
    }
    EXPECT_FALSE(places_by_latency(16, with_slow_node(latencies, 6, 5)));
}

TEST(LatencyGroups, ANodeThatIsAloneInItsLeafStaysAlone) {
    auto latencies = of_pods(16);
    std::erase_if(latencies, [](const NodeLatency& pair) { // of leaf 3 only node 3 is left
        return (pair.a % 4 == 3 && pair.a != 3) || (pair.b % 4 == 3 && pair.b != 3);
    });
    const auto places = places_by_latency(16, latencies).value();
    EXPECT_EQ(text_of({places.begin(), places.begin() + 4}), pods);
}

TEST(LatencyGroups, OfTooFewPairsIsAnError) {
    EXPECT_FALSE(places_by_latency(4, {}));
    EXPECT_FALSE(places_by_latency(0, {}));
    EXPECT_FALSE(places_by_latency(8, {{0, 1, 1}, {1, 2, 1}, {2, 3, 2}, {3, 4, 1}, {4, 5, 1}, {5, 6, 2}, {6, 7, 1}}))
        << "a ring";
}

} // namespace
} // namespace rdma_nccl
