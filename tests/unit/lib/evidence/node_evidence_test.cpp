// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/step_watch.h"

#include "tests/unit/tree.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

/// What a node reports of a step in which nothing moved.
NodeEvidence evidence_of(Layout layout, unsigned tasks, unsigned gpus, const test::Tree& tree) {
    const SysRoot root = tree.root();
    NodeFacts facts;
    facts.host_name = "n01";
    Plan plan;
    plan.layout.layout = layout;
    plan.visible_gpus = gpus;
    const WatchedStep step{root, facts, plan, tasks};
    auto watch = watch_step(step, {12, 0, 0});
    return collect_evidence(step, watch, StepWatch::Clock::now());
}

TEST(NodeEvidence, EachTaskOfTheRankLayoutHasAGpu) {
    const test::Tree tree;
    auto evidence = evidence_of(Layout::Rank, 4, 8, tree);
    EXPECT_EQ(evidence.node, "n01");
    EXPECT_TRUE(evidence.rank_per_gpu);
    EXPECT_EQ(evidence.gpus, 4U);
    EXPECT_EQ(evidence_of(Layout::Rank, 9, 8, tree).gpus, 8U);
    evidence = evidence_of(Layout::Node, 1, 8, tree);
    EXPECT_FALSE(evidence.rank_per_gpu) << "a launcher may start fewer ranks";
    EXPECT_EQ(evidence.gpus, 8U);
    EXPECT_FALSE(evidence_of(Layout::Rank, 4, 0, tree).rank_per_gpu);
}

TEST(NodeEvidence, APeerMemoryClientMakesGpuDirectPossible) {
    test::Tree tree;
    EXPECT_EQ(evidence_of(Layout::Rank, 1, 1, tree).gpu_direct_possible, std::nullopt) << "DMA-BUF shows nowhere";
    tree.file("/sys/kernel/mm/memory_peers/amdkfd/version", "1.0\n");
    EXPECT_EQ(evidence_of(Layout::Rank, 1, 1, tree).gpu_direct_possible, true);
}

} // namespace
} // namespace rdma_nccl
