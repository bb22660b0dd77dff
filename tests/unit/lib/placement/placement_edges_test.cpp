// SPDX-License-Identifier: Apache-2.0
// Placements on machines of which not all is known, or of which the ranks may have only a part.
#include "lib/placement/placement.h"

#include <gtest/gtest.h>

namespace rdma_nccl {

namespace {

CpuSet cpus(unsigned first, unsigned last) {
    return CpuSet::range(first, last);
}

/// Nodes of eight cores, two in each of two packages.
Topology four_nodes() {
    Topology topology;
    topology.packages = 2;
    for (unsigned node = 0; node < 4; ++node) {
        topology.numa_nodes.push_back({node, cpus(node * 8, node * 8 + 7), 1024, node / 2, false});
    }
    for (unsigned cpu = 0; cpu < 32; ++cpu) {
        topology.cores.push_back({cpus(cpu, cpu), cpu / 16, cpu / 8, cpu / 16});
    }
    return topology;
}

std::vector<std::string> cpu_lists(const Placement& placement) {
    std::vector<std::string> lists;
    for (const auto& rank : placement.ranks) {
        lists.push_back(rank.cpus.list());
    }
    return lists;
}

} // namespace

TEST(PlacementEdges, GpuOfUnknownPlaceIsNoBetterThanAKnownOne) {
    const Topology topology = four_nodes();
    const Place first{"", cpus(0, 7)};
    const Place second{"", cpus(16, 23)};
    const Place unknown;
    const std::vector<CpuSet> open(2, topology.cpus());
    const PlacementFacts facts{topology, {first, second, unknown, unknown}, {}, open, {}, true, true};
    EXPECT_EQ(plan_placement(facts).gpu_order, GpuNumbers());
}

TEST(PlacementEdges, WhoHasNoCpusAtItsGpuLeavesThoseOfOthersAlone) {
    const Topology topology = four_nodes();
    const Place allowed{"", cpus(8, 15)};
    const Place not_allowed{"", cpus(16, 23)};
    const Place gone{"", cpus(24, 31)};
    // Nodes 0 and 1 of the machine; the first two GPUs are at the other nodes.
    const std::vector<CpuSet> open(4, cpus(0, 15));
    const PlacementFacts facts{topology, {not_allowed, gone, allowed, allowed}, {}, open, {}, false, true};
    EXPECT_EQ(cpu_lists(plan_placement(facts)), (std::vector<std::string>{"0-3", "4-7", "8-11", "12-15"}));
}

TEST(PlacementEdges, RanksNearToNothingHaveRunsOfCores) {
    const Topology topology = four_nodes();
    const std::vector<CpuSet> open(6, topology.cpus());
    EXPECT_EQ(cpu_lists(plan_placement({topology, {}, {}, open, {}, false, true})),
              (std::vector<std::string>{"0-5", "6-10", "11-15", "16-21", "22-26", "27-31"}));
}

} // namespace rdma_nccl
