// SPDX-License-Identifier: Apache-2.0
#include "tools/pairs/judging.h"

#include <gtest/gtest.h>

namespace rdma_nccl::pairs {
namespace {

Observation seen(unsigned one, unsigned other, bool bad) {
    return {.end = {one, other}, .node = {one, other}, .bad = bad};
}

TEST(PairsBlame, WhoIsAlwaysBadComesBeforeWhoIsOftenBad) {
    // 0 was bad four times of six, but each time with one of 1 to 4, which are bad with everybody.
    std::vector<Observation> all = {seen(0, 5, false), seen(0, 6, false)};
    for (unsigned end = 1; end <= 4; ++end) {
        all.push_back(seen(0, end, true));
        all.push_back(seen(end, end + 6, true));
        all.push_back(seen(end + 6, 11, false));
    }
    EXPECT_EQ(blame_ends(all, 12, {}), (std::vector<unsigned>{1, 2, 3, 4}));
}

TEST(PairsBlame, OnePartnerIsNoEvidence) {
    std::vector<Observation> all = {seen(0, 1, true), seen(0, 1, true)};
    EXPECT_TRUE(blame_ends(all, 2, {}).empty());
    const std::vector<unsigned> only = {1};
    EXPECT_EQ(blame_ends(all, 2, {.fewest_partners = 1, .only = only}), only);
    EXPECT_TRUE(all[0].explained && all[1].explained);
    all.clear();
    EXPECT_TRUE(blame_ends(all, 0, {}).empty());
}

} // namespace
} // namespace rdma_nccl::pairs
