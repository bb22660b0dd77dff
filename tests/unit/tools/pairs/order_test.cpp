// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/pairs/order.h"

#include <gtest/gtest.h>

namespace rdma_nccl::pairs {
namespace {

TEST(Order, WithinTheLimitsOfTheCommandLine) {
    const Json good = {{"do", "prepare"},         {"pairing", 1},       {"rail", 3},   {"ends", 2},
                       {"message_size", 1 << 20}, {"queue_pairs", 256}, {"depth", 64}, {"traffic_class", 106},
                       {"service_level", 3},      {"pkey_index", 0},    {"gpu", true}};
    const auto order = parse_order(good);
    ASSERT_TRUE(order) << order.error().message;
    EXPECT_EQ(order->what, "prepare");
    EXPECT_EQ(order->rail, 3U);
    EXPECT_EQ(order->measure.queue_pairs, 256U);
    EXPECT_TRUE(order->measure.gpu);
    const std::pair<const char*, Json> wrong[] = {
        {"do", 5},
        {"rail", -1},
        {"ends", 3},
        {"message_size", std::uint64_t{1} << 40},
        {"message_size", 1e300},
        {"queue_pairs", 1 << 20},
        {"depth", 1 << 20},
        {"traffic_class", 256},
        {"service_level", 16},
        {"pkey_index", 65536},
        {"gpu", 1},
        {"mtu", 1 << 20},
        {"time_ms", -1},
        {"time_ms", std::int64_t{1} << 40},
        {"address", "n01"},
        {"port", 65536},
        {"peers", Json::array({1})},
        {"peers", std::vector<int>(1000)},
    };
    for (const auto& [name, value] : wrong) {
        auto bad = good;
        bad[name] = value;
        EXPECT_FALSE(parse_order(bad)) << name << " " << value;
    }
}

TEST(Order, AnswersAreWithinTheirLimits) {
    const auto answer = parse_answer({{"gbps", 380.5}, {"bytes", 7}, {"notes", Json::array({"\x1b[2Jslow"})}});
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->gbps, 380.5);
    EXPECT_EQ(answer->notes, std::vector<std::string>{"?[2Jslow"});
    for (const auto& bad : {Json{{"gbps", -1}}, Json{{"gbps", 1e300}}, Json{{"bytes", 1e300}}, Json{{"port", 1 << 20}},
                            Json{{"notes", std::vector<std::string>(10000, "x")}}, Json{{"error", 5}},
                            Json{{"error", std::string(100000, 'x')}}, Json{{"addresses", Json::array({1})}},
                            Json{{"latency", {{"min_us", -5}}}}}) {
        EXPECT_FALSE(parse_answer(bad)) << bad.dump().substr(0, 100);
    }
}

} // namespace
} // namespace rdma_nccl::pairs
