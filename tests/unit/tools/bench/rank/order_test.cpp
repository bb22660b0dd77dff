// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/bench/rank/order.h"

#include <gtest/gtest.h>

namespace rdma_nccl::bench {

namespace {

TEST(BenchCollective, NamesAreThoseOfNcclTests) {
    for (const auto name : collective_names()) {
        ASSERT_TRUE(parse_collective(name)) << name;
        EXPECT_EQ(name_of(*parse_collective(name)), name);
    }
    EXPECT_EQ(parse_collective("all-to-all"), Collective::AllToAll);
    EXPECT_EQ(parse_collective("send-recv"), Collective::SendRecv);
    EXPECT_FALSE(parse_collective("allreduce"));
}

TEST(BenchCollective, FactorsAreThoseOfNcclTests) {
    EXPECT_DOUBLE_EQ(bus_factor(Collective::AllReduce, 16), 1.875);
    EXPECT_DOUBLE_EQ(bus_factor(Collective::AllGather, 16), 0.9375);
    EXPECT_DOUBLE_EQ(bus_factor(Collective::ReduceScatter, 4), 0.75);
    EXPECT_DOUBLE_EQ(bus_factor(Collective::AllToAll, 2), 0.5);
    EXPECT_DOUBLE_EQ(bus_factor(Collective::Broadcast, 16), 1);
    EXPECT_DOUBLE_EQ(bus_factor(Collective::SendRecv, 16), 1);
    EXPECT_DOUBLE_EQ(bus_factor(Collective::AllReduce, 1), 0);
}

TEST(BenchCollective, CountsOfARank) {
    EXPECT_EQ(counts_of(Collective::AllReduce, 1024, 4, 3), (CollectiveCounts{256, 256, 256}));
    EXPECT_EQ(counts_of(Collective::SendRecv, 1026, 4, 3), (CollectiveCounts{256, 256, 256}));
    // 256 values for 3 ranks: 85, and of these whole 16 bytes.
    EXPECT_EQ(counts_of(Collective::AllGather, 1024, 4, 3), (CollectiveCounts{84, 84, 252}));
    EXPECT_EQ(counts_of(Collective::ReduceScatter, 1024, 4, 3), (CollectiveCounts{84, 252, 84}));
    EXPECT_EQ(counts_of(Collective::AllToAll, 1024, 8, 2), (CollectiveCounts{64, 128, 128}));
    EXPECT_EQ(counts_of(Collective::AllToAll, 16, 4, 1000), (CollectiveCounts{0, 0, 0}));
}

TEST(Work, Sizes) {
    EXPECT_EQ(parse_message_size("8"), 8U);
    EXPECT_EQ(parse_message_size("512K"), 512U << 10);
    EXPECT_EQ(parse_message_size("32m"), 32U << 20);
    EXPECT_EQ(parse_message_size("1024G"), std::uint64_t{1} << 40);
    for (const auto* text :
         {"", "0", "K", "2T", "-1", "1.5G", "1025G", "8 ", "99999999999999999999", "18446744073709551615"}) {
        EXPECT_FALSE(parse_message_size(text)) << text;
    }
    EXPECT_EQ(sizes_between(4, 70, 4), (std::vector<std::uint64_t>{4, 16, 64}));
    EXPECT_EQ(sizes_between(8, 8, 2), (std::vector<std::uint64_t>{8}));
    EXPECT_FALSE(sizes_between(9, 8, 2));
    EXPECT_FALSE(sizes_between(8, 80, 1));
    EXPECT_EQ(sizes_between(1, std::uint64_t{1} << 40, 2)->size(), 41U);
}

TEST(Work, TheMedianOfTheBatchesCounts) {
    const auto odd = times_of({0.003, 0.001, 0.002}, 1'000'000, 1.5);
    EXPECT_DOUBLE_EQ(odd.time_us, 2000);
    EXPECT_DOUBLE_EQ(odd.min_us, 1000);
    EXPECT_DOUBLE_EQ(odd.max_us, 3000);
    EXPECT_DOUBLE_EQ(odd.algbw, 0.5);
    EXPECT_DOUBLE_EQ(odd.busbw, 0.75);
    EXPECT_FALSE(odd.wrong);
    EXPECT_DOUBLE_EQ(times_of({0.004, 0.002}, 1, 1).time_us, 3000);
    EXPECT_DOUBLE_EQ(times_of({0}, 1, 1).algbw, 0) << "no time, no bandwidth";
}

TEST(Work, OrdersAndResultsComeBackFromJson) {
    Work work;
    work.operations = {Collective::Broadcast, Collective::AllToAll};
    work.sizes = {16, 1024};
    work.type = "bfloat16";
    work.redop = "avg";
    work.check = false;
    const auto read = read_work_order(written(work));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, work);

    ResultRow row{"all_reduce", 4096, 1024, "float", "sum", -1, {10, 9, 12, 0.4, 0.6, 3}, std::nullopt};
    EXPECT_EQ(*read_result_row(row_json(row)), row);
    row.in_place = Times{10, 9, 12, 0.4, 0.6, std::nullopt};
    EXPECT_EQ(*read_result_row(row_json(row)), row);
}

TEST(Work, WhatNoHeadSendsIsRefused) {
    Work work;
    EXPECT_FALSE(read_work_order(written(work))) << "no sizes";
    work.sizes = {16};
    const auto good = written(work);
    ASSERT_TRUE(read_work_order(good));
    EXPECT_FALSE(read_work_order(Json::object()));
    EXPECT_FALSE(read_work_order(Json::array()));
    for (const auto& [key, value] : good.members()) {
        auto bad = good;
        bad[key] = Json{{"a", nullptr}};
        EXPECT_FALSE(read_work_order(bad)) << key;
        bad.erase(key);
        EXPECT_FALSE(read_work_order(bad)) << key;
    }
    auto huge = good;
    huge["sizes"] = Json::array({std::uint64_t{1} << 50});
    EXPECT_FALSE(read_work_order(huge));
    EXPECT_FALSE(read_result_row(Json{{"operation", 5}}));
}

} // namespace

} // namespace rdma_nccl::bench
