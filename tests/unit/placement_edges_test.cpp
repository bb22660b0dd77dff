// SPDX-License-Identifier: Apache-2.0
// Placements on machines of which not all is known, or of which the ranks may have only a part.
#include "lib/placement.h"

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

} // namespace rdma_nccl
