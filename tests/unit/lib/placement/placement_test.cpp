// SPDX-License-Identifier: Apache-2.0
// Ranks on machines as there are; what holds on any machine is in placement_property_test.cpp.
#include "lib/placement/placement.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

using Lists = std::vector<std::string>;

CpuSet cpus(std::string_view list) {
    return CpuSet::parse_list(list).value();
}

/// `nodes` NUMA nodes in each package, of `cores` cores each; the second thread of core N is CPU N + number of cores.
struct Shape {
    unsigned packages = 2;
    unsigned nodes = 1;
    unsigned cores = 8;
    unsigned threads = 1;
};

Topology make(const Shape& shape) {
    Topology topology;
    topology.packages = shape.packages;
    const unsigned all = shape.packages * shape.nodes * shape.cores;
    for (unsigned number = 0; number < all; ++number) {
        Core core;
        for (unsigned thread = 0; thread < shape.threads; ++thread) {
            core.cpus.add(number + thread * all);
        }
        core.numa_node = number / shape.cores;
        core.package = *core.numa_node / shape.nodes;
        core.l3 = *core.numa_node;
        topology.cores.push_back(core);
    }
    for (unsigned number = 0; number < shape.packages * shape.nodes; ++number) {
        NumaNode node{number, {}, 1024, number / shape.nodes, false};
        for (const auto& core : topology.cores) {
            node.cpus |= core.numa_node == number ? core.cpus : CpuSet();
        }
        topology.numa_nodes.push_back(node);
    }
    return topology;
}

/// A GPU or HCA of each of these NUMA nodes; -1: of none.
std::vector<Place> devices_on(const Topology& topology, const std::vector<int>& nodes) {
    std::vector<Place> places;
    for (const int node : nodes) {
        places.push_back({"", node < 0 ? CpuSet() : topology.find_numa_node(static_cast<unsigned>(node))->cpus});
    }
    return places;
}

PlacementFacts facts_of(const Topology& topology, const std::vector<int>& gpus, const Lists& masks) {
    PlacementFacts facts{topology, devices_on(topology, gpus), {}, {}, {}, false, true};
    for (const auto& mask : masks) {
        facts.masks.push_back(cpus(mask));
    }
    return facts;
}

Lists cpus_of(const Placement& placement) {
    Lists lists;
    for (const auto& rank : placement.ranks) {
        lists.push_back(rank.cpus.list());
    }
    return lists;
}

Lists shares(const Topology& topology, const std::vector<int>& gpus, const Lists& masks) {
    return cpus_of(plan_placement(facts_of(topology, gpus, masks)));
}

Lists all_open(std::size_t ranks, const std::string& mask) {
    return Lists(ranks, mask);
}

TEST(Placement, TwoSocketsOfEightGpusGiveEachRankItsPartOfItsSocket) {
    const Topology topology = make({});
    EXPECT_EQ(shares(topology, {0, 0, 0, 0, 1, 1, 1, 1}, all_open(8, "0-15")),
              (Lists{"0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"}));
    EXPECT_EQ(shares(topology, {1, 1, 1, 1, 0, 0, 0, 0}, all_open(8, "0-15")),
              (Lists{"8-9", "10-11", "12-13", "14-15", "0-1", "2-3", "4-5", "6-7"}));
}

TEST(Placement, GpusAllOnOneSocketLeaveTheOtherIdle) {
    EXPECT_EQ(shares(make({}), {1, 1, 1, 1}, all_open(4, "0-15")), (Lists{"8-9", "10-11", "12-13", "14-15"}));
    EXPECT_EQ(shares(make({}), {1, 1}, all_open(2, "0-15")), (Lists{"8-11", "12-15"}));
}

TEST(Placement, ThoseThatFindNoRoomAtTheirGpuGoFartherOff) {
    // Four ranks on a socket of two cores: two go to the other one.
    const Topology topology = make({.cores = 2});
    EXPECT_EQ(shares(topology, {1, 1, 1, 1}, all_open(4, "0-3")), (Lists{"2", "3", "0", "1"}));
    const auto placement = plan_placement(facts_of(topology, {1, 1, 1, 1}, all_open(4, "0-3")));
    EXPECT_EQ(placement.ranks[1].gpu_to_cpus, Distance::SameNuma);
    EXPECT_EQ(placement.ranks[2].gpu_to_cpus, Distance::Other);
}

TEST(Placement, NobodyTakesTheOnlyCoreNearToAnothersGpu) {
    // Two ranks want the one core of node 0; who goes farther leaves that of node 1 to rank 2.
    EXPECT_EQ(shares(make({.packages = 3, .cores = 1}), {0, 0, 1}, all_open(3, "0-2")), (Lists{"0", "2", "1"}));
}

TEST(Placement, ManyNumaNodesOfASocketGoByTheGpus) {
    // As in a DGX A100 with NPS4: GPUs on nodes 3, 3, 1, 1, 7, 7, 5, 5.
    EXPECT_EQ(shares(make({.nodes = 4, .cores = 4}), {3, 3, 1, 1, 7, 7, 5, 5}, all_open(8, "0-31")),
              (Lists{"12-13", "14-15", "4-5", "6-7", "28-29", "30-31", "20-21", "22-23"}));
}

TEST(Placement, ThreadsOfACoreStayTogether) {
    EXPECT_EQ(shares(make({.cores = 4, .threads = 2}), {0, 0, 1, 1}, all_open(4, "0-15")),
              (Lists{"0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"}));
}

TEST(Placement, OneThreadOfEachCoreIsOneThreadOfEachCore) {
    // hint=nomultithread
    const auto placement = plan_placement(facts_of(make({.cores = 4, .threads = 2}), {0, 0, 1, 1}, all_open(4, "0-7")));
    EXPECT_EQ(cpus_of(placement), (Lists{"0-1", "2-3", "4-5", "6-7"}));
    EXPECT_EQ(placement.ranks[0].cores, 2U);
}

TEST(Placement, AMaskWithFewNearCoresIsFilledUpWithFarOnes) {
    // One core of socket 1 is left to two ranks with GPUs there.
    EXPECT_EQ(shares(make({}), {1, 1}, all_open(2, "0-3,15")), (Lists{"0,15", "1-2"}));
    // Two near cores do for a rank: no far ones.
    EXPECT_EQ(shares(make({}), {0, 1}, all_open(2, "0-5,14-15")), (Lists{"0-5", "14-15"}));
}

TEST(Placement, FewerCoresThanRanksAreSharedByThreads) {
    EXPECT_EQ(shares(make({.cores = 1, .threads = 2}), {0, 0, 1, 1}, all_open(4, "0-3")), (Lists{"0", "2", "1", "3"}));
    EXPECT_EQ(shares(make({.cores = 1, .threads = 2}), {0, 1, 1}, all_open(3, "0-3")), (Lists{"0,2", "1", "3"}));
}

TEST(Placement, FewerCpusThanRanksStayInCommon) {
    const auto placement = plan_placement(facts_of(make({}), {0, 0, 0}, all_open(3, "0-1")));
    EXPECT_EQ(cpus_of(placement), (Lists{"0-1", "0-1", "0-1"}));
    EXPECT_EQ(placement.ranks[0].source, CpuSource::Scarce);
    EXPECT_EQ(placement.ranks[0].threads(), 1U);
    EXPECT_EQ(placement.notes, Lists{"ranks 0 to 2 share 2 CPUs (0-1)"});
    EXPECT_EQ(plan_placement(facts_of(make({}), {0, 0}, {"3", "3"})).notes, Lists{"ranks 0 to 1 share 1 CPU (3)"});
    EXPECT_EQ(plan_placement(facts_of(make({}), {0, 0, 0}, {"3", "4", "3"})).notes,
              Lists{"ranks 0, 2 share 1 CPU (3)"});
}

TEST(Placement, WithoutGpusNeighboursStayTogether) {
    EXPECT_EQ(shares(make({}), {}, all_open(4, "0-15")), (Lists{"0-3", "4-7", "8-11", "12-15"}));
    EXPECT_EQ(shares(make({.cores = 3}), {}, all_open(2, "0-5")), (Lists{"0-2", "3-5"}));
}

TEST(Placement, GpusOfUnknownPlacesAreAsNone) {
    EXPECT_EQ(shares(make({}), {-1, -1, -1, -1}, all_open(4, "0-15")), (Lists{"0-3", "4-7", "8-11", "12-15"}));
}

TEST(Placement, AGpuOfUnknownPlaceIsNearToWhereItsHcaIs) {
    const Topology topology = make({});
    auto facts = facts_of(topology, {-1, -1}, all_open(2, "0-15"));
    facts.hcas = devices_on(topology, {1});
    EXPECT_EQ(cpus_of(plan_placement(facts)), (Lists{"8-11", "12-15"}));
}

TEST(Placement, TheHcaDecidesBetweenPlacesThatAreEquallyNear) {
    // The GPUs are near to a package of two NUMA nodes, each HCA to one of these.
    const Topology topology = make({.packages = 1, .nodes = 2, .cores = 4});
    auto facts = facts_of(topology, {}, all_open(2, "0-7"));
    facts.gpus = {{"", cpus("0-7")}, {"", cpus("0-7")}};
    facts.hcas = devices_on(topology, {1, 0});
    EXPECT_EQ(cpus_of(plan_placement(facts)), (Lists{"4-7", "0-3"}));
}

TEST(Placement, RanksSpreadOverPlacesThatAreEquallyNear) {
    const Topology topology = make({.packages = 1, .nodes = 2, .cores = 4});
    auto facts = facts_of(topology, {}, all_open(2, "0-7"));
    facts.gpus = {{"", cpus("0-7")}, {"", cpus("0-7")}};
    EXPECT_EQ(cpus_of(plan_placement(facts)), (Lists{"0-3", "4-7"}));
}

TEST(Placement, RoomIsLeftForOthersAtTheirGpus) {
    const Topology topology = make({});
    auto facts = facts_of(topology, {0, 0}, all_open(2, "0-15"));
    facts.others = devices_on(topology, {0, 0});
    EXPECT_EQ(cpus_of(plan_placement(facts)), (Lists{"0-1", "2-3"}));
    facts.masks = {cpus("0-1"), cpus("0-1")};
    EXPECT_EQ(cpus_of(plan_placement(facts)), (Lists{"0", "1"})); // no room: the others' matters less
}

TEST(Placement, OwnCpusAreKept) {
    const Lists bound = {"8-11", "0-3"};
    const auto placement = plan_placement(facts_of(make({}), {0, 1}, bound));
    EXPECT_EQ(cpus_of(placement), bound);
    EXPECT_EQ(placement.ranks[0].source, CpuSource::Slurm);
    EXPECT_EQ(placement.ranks[0].gpu_to_cpus, Distance::Other);
    EXPECT_EQ(shares(make({}), {0, 0, 1}, {"0-3", "0-3", "8-11"}), (Lists{"0-1", "2-3", "8-11"}));
}

TEST(Placement, NothingIsSharedThatShallNotBe) {
    const Topology topology = make({});
    auto facts = facts_of(topology, {0, 1}, all_open(2, "0-15"));
    facts.may_share = false;
    EXPECT_EQ(cpus_of(plan_placement(facts)), all_open(2, "0-15"));
}

TEST(Placement, TheOrderOfTheGpusFollowsTheCpusOfTheRanks) {
    const Topology topology = make({});
    auto facts = facts_of(topology, {0, 1, 0}, {"8-11", "0-3"});
    EXPECT_TRUE(plan_placement(facts).gpu_order.empty());
    facts.may_reorder = true;
    const auto placement = plan_placement(facts);
    EXPECT_EQ(placement.gpu_order, (GpuNumbers{1, 0, 2}));
    EXPECT_EQ(placement.ranks[0].gpus, GpuNumbers{1});
    EXPECT_EQ(placement.ranks[0].gpu_to_cpus, Distance::SameNuma);
    EXPECT_LT(count_distance(facts, placement.gpu_order), count_distance(facts, {0, 1, 2}));
    facts.masks = {cpus("0-3"), cpus("8-11")};
    EXPECT_TRUE(plan_placement(facts).gpu_order.empty());
}

TEST(Placement, MemoryIsThatOfTheCpus) {
    const auto placement = plan_placement(facts_of(make({}), {0, 1}, {"0-3", "8-11"}));
    EXPECT_EQ(placement.ranks[0].memory_node, 0U);
    EXPECT_EQ(placement.ranks[1].memory_node, 1U);
}

TEST(Placement, MemoryOfCpusOfSeveralNodesIsThatOfTheGpuOrNone) {
    const auto node_of = [](int gpu, const std::string& mask) {
        return plan_placement(facts_of(make({}), {gpu}, {mask})).ranks[0].memory_node;
    };
    EXPECT_EQ(node_of(1, "7-8"), 1U);
    EXPECT_EQ(node_of(0, "7-8"), 0U);
    EXPECT_EQ(node_of(-1, "7-8"), std::nullopt);
}

TEST(Placement, ANodeWithoutMemoryIsReplacedByOneOfItsPackage) {
    Topology topology = make({.nodes = 2, .cores = 4});
    topology.numa_nodes[0].memory_mib = 0;
    const auto node_of = [&topology](const std::string& mask) {
        return plan_placement(facts_of(topology, {}, {mask})).ranks[0].memory_node;
    };
    EXPECT_EQ(node_of("0-3"), 1U);
    EXPECT_EQ(node_of("4-7"), 1U);
    topology.numa_nodes[1].special = true; // the GPU's own
    EXPECT_EQ(node_of("0-3"), std::nullopt);
    topology.numa_nodes.clear();
    EXPECT_EQ(node_of("0-3"), std::nullopt);
}

TEST(Placement, ANodeOfTheMachinesWholeCpusIsNoCoresMemory) {
    Topology topology = make({});
    topology.numa_nodes.push_back({5, topology.cpus(), 81920, 0, true});
    EXPECT_EQ(plan_placement(facts_of(topology, {1}, {"8-15"})).ranks[0].memory_node, 1U);
}

TEST(Placement, ARankWithoutGpuTakesTheHcaNearToItsCpus) {
    const Topology topology = make({});
    auto facts = facts_of(topology, {}, {"8-11", "0-3"});
    facts.hcas = devices_on(topology, {0, 1});
    const auto placement = plan_placement(facts);
    EXPECT_EQ(placement.ranks[0].hcas, (std::vector<std::size_t>{1, 0}));
    EXPECT_EQ(placement.ranks[1].hcas, (std::vector<std::size_t>{0, 1}));
    EXPECT_EQ(placement.ranks[0].to_hca, Distance::SameNuma);
}

TEST(Placement, OneCoreIsLeftForTheProxyWhereThereAreFour) {
    RankPlacement rank;
    for (const auto& [cores, threads] : {std::pair(0U, 1U), {1U, 1U}, {3U, 3U}, {4U, 3U}, {16U, 15U}}) {
        rank.cores = cores;
        EXPECT_EQ(rank.threads(), threads) << cores;
    }
}

TEST(Placement, MoreRanksThanGpusAreWarnedOf) {
    const auto placement = plan_placement(facts_of(make({}), {0, 1}, all_open(3, "0-15")));
    EXPECT_EQ(placement.ranks[2].gpus, GpuNumbers{0});
    ASSERT_EQ(placement.warnings.size(), 1U);
    EXPECT_EQ(placement.warnings[0].find("3 ranks on 2 GPUs: "), 0U);
    EXPECT_EQ(plan_placement(facts_of(make({}), {0, 1, 1}, all_open(2, "0-15"))).notes,
              Lists{"2 ranks drive the first 2 of 3 GPUs"});
    EXPECT_TRUE(plan_placement(facts_of(make({}), {0, 1}, all_open(2, "0-15"))).notes.empty());
}

TEST(CpuShares, AreNoneWithoutRanksOrCpus) {
    const Topology topology = make({});
    EXPECT_TRUE(share_cpus(topology, cpus("0-15"), {}).empty());
    EXPECT_TRUE(share_cpus(topology, CpuSet(), std::vector<RankDevices>(1)).empty());
    EXPECT_TRUE(share_cpus(topology, cpus("100-200"), std::vector<RankDevices>(1)).empty());
    EXPECT_TRUE(share_cpus(Topology(), cpus("0-3"), std::vector<RankDevices>(2)).empty());
}

} // namespace
} // namespace rdma_nccl
