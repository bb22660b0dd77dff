// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/options.h"

#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

using Numbers = std::vector<std::size_t>;
using Ranges = std::vector<RankRange>;

std::vector<RankProgram> programs(const std::vector<Ranges>& ranges) {
    std::vector<RankProgram> result;
    for (const auto& each : ranges) {
        result.push_back({each, {std::string("./p") + std::to_string(result.size())}});
    }
    return result;
}

std::string error_of(const std::vector<Ranges>& ranges, unsigned world_size) {
    const auto assigned = assign_programs(programs(ranges), world_size, 0, 1);
    return assigned ? "no error" : assigned.error().message;
}

TEST(RunRankPrograms, OneForAll) {
    EXPECT_EQ(assign_programs(programs({{}}), 4, 2, 2), (Numbers{0, 0}));
}

TEST(RunRankPrograms, ByRanges) {
    const auto three = programs({{{0, 7}}, {{8, 8}, {10, 15}}, {}});
    EXPECT_EQ(assign_programs(three, 17, 0, 8), Numbers(8, 0));
    EXPECT_EQ(assign_programs(three, 17, 7, 4), (Numbers{0, 1, 2, 1}));
    EXPECT_EQ(assign_programs(three, 17, 14, 3), (Numbers{1, 1, 2}));
    EXPECT_EQ(assign_programs(programs({{{1, 1}}, {{0, 0}}}), 2, 0, 2), (Numbers{1, 0}));
    EXPECT_EQ(assign_programs(programs({{{0, 2147483645}}, {}}), 2147483647, 2147483646, 1), Numbers{1});
}

TEST(RunRankPrograms, EveryRankInOne) {
    EXPECT_EQ(error_of({{{0, 3}}, {{3, 5}}}, 6), "rank 3 would run both ./p0 and ./p1: name each rank once");
    EXPECT_EQ(error_of({{{0, 5}}, {{2, 3}}}, 6), "ranks 2-3 would run both ./p0 and ./p1: name each rank once");
    EXPECT_NE(error_of({{{0, 1}}, {{4, 5}}}, 6).find("ranks 2-3 have no program"), std::string::npos);
    EXPECT_NE(error_of({{{0, 4}}}, 6).find("rank 5 has no program"), std::string::npos);
    EXPECT_NE(error_of({{{0, 4}}}, 6).find("--and PROGRAM"), std::string::npos) << "the form that srun passes on";
    EXPECT_NE(error_of({{{1, 5}}}, 6).find("rank 0 has no program"), std::string::npos);
    EXPECT_NE(error_of({{{0, 5}}, {}}, 6).find("no rank is left for ./p1"), std::string::npos);
    EXPECT_NE(error_of({{{0, 6}}, {}}, 6).find("rank 6 for ./p0, but the world has ranks 0 to 5 only"),
              std::string::npos);
    EXPECT_EQ(error_of({{{0, 2}}, {{3, 5}}}, 6), "no error");
}

} // namespace

} // namespace rdma_nccl::run
