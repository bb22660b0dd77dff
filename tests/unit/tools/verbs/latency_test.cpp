// SPDX-License-Identifier: Apache-2.0
// What a measurement of a link makes of its samples, and the pattern that proves its data.
#include "tools/common/thread_pin.h"
#include "tools/pairs/judging.h"
#include "tools/verbs/endpoint.h"
#include "tools/verbs/errors.h"
#include "tools/verbs/port.h"
#include "tools/verbs/rail.h"

#include "lib/net/tcp.h"
#include "lib/sys/resources.h"

#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace rdma_nccl {
namespace {

using std::chrono::milliseconds;

TEST(SteadyRateTest, LeavesOutTheFirstAndTheLastTenth) {
    const SteadyRate::Clock::time_point begin{};
    SteadyRate rate(begin, milliseconds(1000));
    rate.add(begin + milliseconds(50), 1'000'000'000); // what filled up
    rate.add(begin + milliseconds(100), 1'000'000'000);
    rate.add(begin + milliseconds(500), 1'050'000'000);
    rate.add(begin + milliseconds(900), 1'100'000'000);
    rate.add(begin + milliseconds(901), 9'000'000'000); // what ran empty
    EXPECT_DOUBLE_EQ(rate.gbps(), 1.0);                 // 1e8 bytes in 0.8 s
}

TEST(SteadyRateTest, EdgesLieBetweenSamples) {
    const SteadyRate::Clock::time_point begin{};
    SteadyRate rate(begin, milliseconds(1000));
    EXPECT_EQ(rate.gbps(), 0);
    rate.add(begin + milliseconds(1250), 125'000'000); // all at once
    EXPECT_DOUBLE_EQ(rate.gbps(), 0.8);                // 1e5 bytes each millisecond
}

TEST(SteadyRateTest, CountsAStallAtAnEdge) {
    const SteadyRate::Clock::time_point begin{};
    constexpr std::uint64_t each = 125'000; // in a millisecond: 1 Gb/s
    const auto rate_without = [&](int from, int until) {
        SteadyRate rate(begin, milliseconds(1000));
        std::uint64_t bytes = 0;
        for (int time = 1; time <= 1200; ++time) {
            if (time <= from || time > until) {
                rate.add(begin + milliseconds(time), bytes += each);
            }
        }
        return rate.gbps();
    };
    EXPECT_NEAR(rate_without(0, 0), 1, 1e-9);
    EXPECT_NEAR(rate_without(500, 1100), 0.5, 0.01) << "and it went on";
    EXPECT_NEAR(rate_without(500, 1200), 0.5, 0.01) << "for ever";
    EXPECT_NEAR(rate_without(50, 500), 0.5, 0.01) << "from before the steady part";
    EXPECT_NEAR(rate_without(300, 700), 0.5, 0.01);
}

TEST(SteadyRateTest, WhatIsCutIsShorter) {
    const SteadyRate::Clock::time_point begin{};
    SteadyRate rate(begin, milliseconds(1000));
    rate.add(begin + milliseconds(100), 12'500'000);
    rate.add(begin + milliseconds(500), 62'500'000);
    rate.cut(begin + milliseconds(500));
    EXPECT_NEAR(rate.gbps(), 1, 1e-9);
    SteadyRate soon(begin, milliseconds(1000));
    soon.add(begin + milliseconds(50), 6'250'000);
    soon.cut(begin + milliseconds(50));
    EXPECT_NEAR(soon.gbps(), 1, 1e-9);
}

TEST(LatencySummaryTest, NearestRanks) {
    EXPECT_EQ(summarize_latencies({}), PairLatency());
    std::vector<float> samples;
    for (int i = 1000; i >= 1; --i) {
        samples.push_back(static_cast<float>(i));
    }
    const PairLatency expected{
        .min_us = 1, .median_us = 500, .p99_us = 990, .p999_us = 999, .max_us = 1000, .round_trips = 1000};
    EXPECT_EQ(summarize_latencies(samples), expected);
    const PairLatency one{.min_us = 7, .median_us = 7, .p99_us = 7, .p999_us = 7, .max_us = 7, .round_trips = 1};
    EXPECT_EQ(summarize_latencies({7}), one);
    EXPECT_EQ(summarize_latencies({3, 1, 2}).median_us, 2);
}

TEST(VerbsPatternTest, IsFoundInPiecesAndNotMistaken) {
    std::vector<std::byte> whole(4099); // not a multiple of a word
    fill_pattern(whole, 5, 0);
    std::vector<std::byte> pieces(whole.size());
    fill_pattern(std::span(pieces).first(1024), 5, 0);
    fill_pattern(std::span(pieces).subspan(1024), 5, 1024);
    EXPECT_EQ(whole, pieces);
    EXPECT_TRUE(has_pattern(whole, 5, 0));
    EXPECT_FALSE(has_pattern(whole, 6, 0));
    EXPECT_FALSE(has_pattern(whole, 5, 8));
    for (const std::size_t at : {std::size_t{0}, std::size_t{2048}, whole.size() - 1}) {
        whole[at] ^= std::byte{1};
        EXPECT_FALSE(has_pattern(whole, 5, 0)) << at;
        whole[at] ^= std::byte{1};
    }
    EXPECT_FALSE(has_pattern(std::vector<std::byte>(4096), 0, 0)) << "zeros are what nobody wrote";
}

TEST(ThreadPinTest, GivesBackWhatItTook) {
    const auto before = read_affinity();
    const unsigned first = before.first().value();
    {
        const ThreadPin pin(std::to_string(first));
        EXPECT_EQ(read_affinity(), CpuSet::range(first, first));
        EXPECT_FALSE(pin.is_distant());
    }
    EXPECT_EQ(read_affinity(), before);
    for (const auto* const list : {"", "nonsense", "8000"}) {
        const ThreadPin pin(list);
        EXPECT_EQ(read_affinity(), before) << list;
        EXPECT_EQ(pin.is_distant(), list == std::string_view("8000")) << list;
    }
}

TEST(IpReachTest, LoopbackAnswers) {
    const auto loopback = IpAddress::parse("127.0.0.1").value();
    EXPECT_TRUE(ip_reaches(loopback, loopback, "lo", milliseconds(2000)));
    const auto foreign = IpAddress::parse("192.0.2.1").value(); // RFC 5737: nobody has it
    EXPECT_FALSE(ip_reaches(foreign, loopback, "lo", milliseconds(100)));
}

TEST(IpReachTest, WhoProhibitsIsThere) {
    const auto peer = *IpAddress::parse("10.0.0.2");
    const auto router = *IpAddress::parse("10.0.0.1");
    const auto answers = [&](bool v6, std::uint8_t type, std::uint8_t code, const std::optional<IpAddress>& from) {
        return icmp_is_answer({v6, type, code, from}, peer);
    };
    for (const std::uint8_t code : {std::uint8_t{9}, std::uint8_t{10}, std::uint8_t{13}}) {
        EXPECT_TRUE(answers(false, 3, code, router));
        EXPECT_FALSE(answers(false, 11, code, router));
        EXPECT_FALSE(answers(true, 1, code, router));
    }
    EXPECT_FALSE(answers(false, 3, 1, router)) << "no such host";
    EXPECT_FALSE(answers(false, 3, 1, {}));
    EXPECT_TRUE(answers(false, 3, 3, peer)) << "no such port";
    EXPECT_TRUE(answers(true, 1, 1, router));
    EXPECT_FALSE(answers(true, 1, 0, router)) << "no route";
}

TEST(VerbsEndTest, SaysWhatIsMissing) {
    VerbsSettings settings;
    settings.rail.hca = "nothing_0";
    settings.message_size = 12; // no multiple of 8
    const auto odd = VerbsEndpoint::open(settings);
    ASSERT_FALSE(odd);
    EXPECT_NE(odd.error().message.find("multiple of 8"), std::string::npos) << odd.error().message;
    settings.message_size = std::uint64_t{1} << 30;
    settings.queue_pairs = 3;
    const auto large = VerbsEndpoint::open(settings);
    ASSERT_FALSE(large);
    EXPECT_NE(large.error().message.find("more than 4 GiB"), std::string::npos) << large.error().message;
    settings.queue_pairs = 1;
    settings.message_size = 4096;
    const auto absent = VerbsEndpoint::open(settings);
    ASSERT_FALSE(absent);
    EXPECT_NE(absent.error().message.find("libibverbs"), std::string::npos) << absent.error().message;
}

} // namespace
} // namespace rdma_nccl
