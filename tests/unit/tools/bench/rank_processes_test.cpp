// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank_processes.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

namespace rdma_nccl::bench {

namespace {

/// A process that says its word when it hears a line after its order, and ends.
RankStart start_of(int run, const std::string& word) {
    return {{"/bin/sh", "-c", "read order <&3; read line <&3; echo '{\"says\":\"" + word + "\"}' >&3"}, run, {}, {}};
}

std::vector<RankEvent> events_of(RankProcesses& ranks, std::size_t count) {
    std::vector<RankEvent> events;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (events.size() < count && std::chrono::steady_clock::now() < until) {
        for (auto& event : ranks.take()) {
            events.push_back(std::move(event));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return events;
}

TEST(BenchRanks, RunsAreToldApart) {
    RankProcesses ranks;
    ASSERT_TRUE(ranks.start(0, start_of(1, "old")));
    ASSERT_TRUE(ranks.start(0, start_of(2, "new")));
    ranks.send(2, 0, {{"go", 1}});
    auto events = events_of(ranks, 2);
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].run, 2);
    EXPECT_EQ(events[0].message["says"], "new");
    EXPECT_TRUE(events[1].message.is_null() && events[1].ended_well);
    EXPECT_FALSE(ranks.empty()) << "the old one has heard nothing";
    ranks.kill();
    events = events_of(ranks, 1);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].run, 1);
    EXPECT_EQ(events[0].end, "killed by signal 9 (Killed)");
}

} // namespace

} // namespace rdma_nccl::bench
