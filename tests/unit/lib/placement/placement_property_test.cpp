// SPDX-License-Identifier: Apache-2.0
// What holds for any placement, on thousands of machines that nobody has thought of.
#include "tests/fuzz/placement_check.h"
#include "tests/fuzz/placement_machine.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <string>

namespace rdma_nccl {
namespace {

constexpr unsigned machines = 3000;

fuzz::PlacedRanks random_machine(unsigned seed) {
    std::mt19937 random(seed);
    return fuzz::MachineMaker([&random](std::size_t count) { return random() % count; }).make();
}

/// In parts, which can be tested at the same time.
class PlacementPropertiesOf : public testing::TestWithParam<unsigned> {
protected:
    static constexpr unsigned parts = 8;
    static_assert(machines % parts == 0);
};

TEST_P(PlacementPropertiesOf, AnyRanksOnAnyMachineHold) {
    for (unsigned seed = GetParam(); seed < machines; seed += parts) {
        const auto machine = random_machine(seed);
        ASSERT_EQ(fuzz::find_fault(machine.facts()), "") << "seed " << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(Parts, PlacementPropertiesOf, testing::Range(0U, 8U));

bool has_threads(const Topology& topology, const CpuSet& one) {
    return std::any_of(topology.cores.begin(), topology.cores.end(),
                       [&one](const Core& core) { return core.cpus.contains(one) && core.cpus.size() > 1; });
}

/// What a machine is a case of.
std::set<std::string> kinds_of(const fuzz::PlacedRanks& machine, const Placement& placement) {
    std::set<std::string> kinds;
    const auto note = [&kinds](bool is, const char* kind) {
        if (is) {
            kinds.insert(kind);
        }
    };
    note(!placement.gpu_order.empty(), "reordered");
    for (const auto& rank : placement.ranks) {
        const bool shared = rank.source == CpuSource::Shared;
        note(shared, "shared");
        note(rank.source == CpuSource::Scarce, "scarce");
        note(shared && rank.gpu_to_cpus == Distance::Other, "far");
        note(shared && rank.cpus.size() == 1 && has_threads(machine.topology, rank.cpus), "threads");
        note(!rank.memory_node, "without memory");
    }
    return kinds;
}

/// Else the properties above might hold because nothing happens.
TEST(PlacementProperties, AreAskedOfMachinesOfAllKinds) {
    std::map<std::string, unsigned> seen;
    for (unsigned seed = 0; seed < machines; ++seed) {
        const auto machine = random_machine(seed);
        const auto placement = plan_placement(machine.facts());
        for (const auto& kind : kinds_of(machine, placement)) {
            ++seen[kind];
        }
    }
    for (const auto* const kind : {"shared", "scarce", "reordered", "threads", "far", "without memory"}) {
        EXPECT_GT(seen[kind], machines / 100) << kind;
    }
}

} // namespace
} // namespace rdma_nccl
