// SPDX-License-Identifier: Apache-2.0
#include "lib/base/cpu_set.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <set>
#include <string>

namespace rdma_nccl {
namespace {

std::string list_of(std::string_view text) {
    const auto set = CpuSet::parse_list(text);
    return set ? set->list() : "none";
}

TEST(CpuSet, ReadsTheKernelsLists) {
    EXPECT_EQ(list_of("0"), "0");
    EXPECT_EQ(list_of("0-3,8,10-11"), "0-3,8,10-11");
    EXPECT_EQ(list_of("63-64"), "63-64");
    EXPECT_EQ(list_of(" 0-1 , 5\n"), "0-1,5");
    EXPECT_EQ(list_of("5,0-1"), "0-1,5");
    EXPECT_EQ(list_of("0-2,1-4,4"), "0-4");
}

TEST(CpuSet, ReadsStrides) {
    EXPECT_EQ(list_of("0-7:2/4"), "0-1,4-5");
    EXPECT_EQ(list_of("1-9:1/3"), "1,4,7");
    EXPECT_EQ(list_of("0-5:4/4"), "0-5");
    EXPECT_EQ(list_of("0-7:0/4"), "");
}

TEST(CpuSet, AnEmptyListIsTheEmptySet) {
    EXPECT_EQ(CpuSet::parse_list(""), CpuSet());
    EXPECT_EQ(CpuSet::parse_list(" \n"), CpuSet());
    EXPECT_TRUE(CpuSet().empty());
    EXPECT_EQ(CpuSet().list(), "");
}

TEST(CpuSet, TakesNoGarbageForAList) {
    for (const auto* const text : {"a",
                                   "1-",
                                   "-1",
                                   "-",
                                   "3-1",
                                   "0-1-2",
                                   ",",
                                   "0,",
                                   ",0",
                                   "0,,1",
                                   "1 2",
                                   "+1",
                                   "0x1",
                                   "0-7:",
                                   "0-7:2",
                                   "0-7:2/",
                                   "0-7:/4",
                                   "0-7:5/4",
                                   "0-7:0/0",
                                   "3:1/2",
                                   "0-7:2/4/8",
                                   "4294967296",
                                   "99999999999999999999"}) {
        EXPECT_EQ(list_of(text), "none") << text;
    }
}

TEST(CpuSet, Knows8192Cpus) {
    EXPECT_EQ(list_of("8191"), "8191");
    EXPECT_EQ(CpuSet::parse_list("0-8191")->size(), 8192U);
    EXPECT_EQ(list_of("8192"), "none");
    EXPECT_EQ(list_of("0-8192"), "none");
    CpuSet set;
    set.add(8192);
    set.add(4294967295U);
    EXPECT_TRUE(set.empty());
    EXPECT_EQ(CpuSet::range(8190, 4294967295U).list(), "8190-8191");
    EXPECT_FALSE(CpuSet::range(0, 8191).contains(8192));
}

TEST(CpuSet, EqualSetsAreEqualHoweverTheyCameAbout) {
    EXPECT_EQ(CpuSet(std::array<std::uint64_t, 3>{7, 0, 0}), CpuSet::range(0, 2));
    EXPECT_EQ(CpuSet::range(0, 200) & CpuSet::range(0, 2), CpuSet::range(0, 2));
    EXPECT_EQ(CpuSet::range(0, 200) - CpuSet::range(3, 200), CpuSet::range(0, 2));
    EXPECT_TRUE((CpuSet::range(64, 65) - CpuSet::range(64, 65)).empty());
}

using Numbers = std::set<unsigned>;

Numbers numbers(const CpuSet& set) {
    const auto cpus = set.cpus();
    return {cpus.begin(), cpus.end()};
}

CpuSet set_of(const Numbers& cpus) {
    CpuSet set;
    for (const auto cpu : cpus) {
        set.add(cpu);
    }
    return set;
}

class RandomSets : public ::testing::Test {
protected:
    Numbers random_numbers() {
        Numbers cpus;
        const unsigned greatest = std::array{3U, 63U, 64U, 130U, 8191U}[random_() % 5];
        for (auto count = random_() % 20; count > 0; --count) {
            const unsigned first = static_cast<unsigned>(random_()) % (greatest + 1);
            for (unsigned cpu = first; cpu <= greatest && cpu < first + random_() % 6; ++cpu) {
                cpus.insert(cpu);
            }
        }
        return cpus;
    }

private:
    std::mt19937 random_{7};
};

TEST_F(RandomSets, DoAsOtherSetsDo) {
    for (int round = 0; round < 500; ++round) {
        const Numbers a = random_numbers();
        const Numbers b = random_numbers();
        Numbers all;
        Numbers common;
        Numbers rest;
        std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::inserter(all, all.end()));
        std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(common, common.end()));
        std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
        const CpuSet x = set_of(a);
        const CpuSet y = set_of(b);
        SCOPED_TRACE(x.list() + " and " + y.list());
        EXPECT_EQ(numbers(x), a);
        EXPECT_EQ(numbers(x | y), all);
        EXPECT_EQ(numbers(x & y), common);
        EXPECT_EQ(numbers(x - y), rest);
        EXPECT_EQ(x & y, set_of(common));
        EXPECT_EQ(x - y, set_of(rest));
        EXPECT_EQ(x.size(), a.size());
        EXPECT_EQ(x.empty(), a.empty());
        EXPECT_EQ(x == y, a == b);
        EXPECT_EQ(x.contains(y), std::includes(a.begin(), a.end(), b.begin(), b.end()));
        EXPECT_EQ(x.intersects(y), !common.empty());
        EXPECT_EQ(x.first(), a.empty() ? std::nullopt : std::optional(*a.begin()));
        for (const unsigned cpu : b) {
            const auto above = a.upper_bound(cpu);
            EXPECT_EQ(x.contains(cpu), a.count(cpu) == 1);
            EXPECT_EQ(x.next(cpu), above == a.end() ? std::nullopt : std::optional(*above)) << cpu;
        }
    }
}

TEST_F(RandomSets, AreReadAsTheyAreWritten) {
    for (int round = 0; round < 200; ++round) {
        const Numbers cpus = random_numbers();
        const CpuSet set = set_of(cpus);
        EXPECT_EQ(CpuSet::parse_list(set.list()), set) << set.list();
        EXPECT_EQ(CpuSet(set.words()), set);
    }
}

} // namespace
} // namespace rdma_nccl
