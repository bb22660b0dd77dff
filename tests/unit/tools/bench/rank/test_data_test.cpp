// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank/batch.h"
#include "tools/bench/rank/order.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <string>

namespace rdma_nccl::bench {

namespace {

float float_at(std::span<const std::byte> tile, std::size_t index) {
    float value = 0;
    std::memcpy(&value, &tile[index * sizeof value], sizeof value);
    return value;
}

TEST(TestPattern, TheReductionIsThatOfWhatRanksSend) {
    for (const unsigned ranks : {2U, 3U, 8U}) {
        for (const auto redop : {"sum", "prod", "max", "min"}) {
            const TileSettings settings{"float", redop, ranks, 5};
            const auto expected = reduced_tile(settings);
            std::vector<std::vector<std::byte>> sent;
            for (unsigned rank = 0; rank < ranks; ++rank) {
                sent.push_back(sent_tile(settings, rank));
            }
            for (std::size_t i = 0; i < tile_elements; i += 97) {
                float value = float_at(sent[0], i);
                for (unsigned rank = 1; rank < ranks; ++rank) {
                    const float other = float_at(sent[rank], i);
                    const std::string op = redop;
                    value = op == "sum"    ? value + other
                            : op == "prod" ? value * other
                            : op == "max"  ? std::max(value, other)
                                           : std::min(value, other);
                }
                ASSERT_EQ(float_at(expected, i), value) << redop << " of " << ranks << ", element " << i;
            }
        }
    }
}

TEST(TestPattern, EachRankIsMissed) {
    // Without one rank's part, or with another's twice, some of the first few values are wrong.
    const TileSettings settings{"float", "sum", 1000, 1};
    const auto expected = reduced_tile(settings);
    for (unsigned rank = 0; rank < settings.ranks; rank += 37) {
        const auto sent = sent_tile(settings, rank);
        bool needed = false;
        for (std::size_t i = 0; i < 2 * settings.ranks; ++i) {
            needed = needed || float_at(sent, i) != 0;
        }
        EXPECT_TRUE(needed) << rank;
    }
    EXPECT_LE(float_at(expected, 12345), 9) << "sums do not grow with the ranks";
}

TEST(TestPattern, WhatIsOnlyMovedTellsRanksAndIsNeverZero) {
    for (const auto type : type_names()) {
        const TileSettings settings{type, "none", 1000, 4};
        const auto tile = sent_tile(settings, 1);
        const std::vector<std::byte> zeros(tile.size());
        EXPECT_EQ(count_wrong(settings, tile, zeros, 0), tile_elements) << type;
        EXPECT_EQ(count_wrong(settings, tile, sent_tile(settings, 2), 0), tile_elements) << type;
        EXPECT_GT(count_wrong(settings, tile, tile, 1), tile_elements / 2) << type;
    }
}

TEST(TestPattern, AnAverageOfWholeNumbersIsNotZero) {
    for (const auto type : {"int8", "uint8", "int32", "int64"}) {
        for (const unsigned ranks : {2U, 16U, 64U}) {
            const TileSettings settings{type, "avg", ranks, 0};
            const auto tile = reduced_tile(settings);
            const std::vector<std::byte> zeros(tile.size());
            EXPECT_GT(count_wrong(settings, tile, zeros, 0), tile_elements / 2) << type << ", " << ranks;
        }
    }
}

TEST(TestPattern, AllTypesCanBeCompared) {
    for (const auto type : type_names()) {
        for (const auto redop : reduction_names()) {
            const TileSettings settings{type, redop, 5, 3};
            const auto tile = reduced_tile(settings);
            ASSERT_EQ(tile.size(), tile_elements * *size_of_type(type));
            EXPECT_EQ(count_wrong(settings, tile, tile, 0), 0U) << type << " " << redop;
            auto bad = tile;
            bad[bad.size() / 2] ^= std::byte{0x40};
            EXPECT_EQ(count_wrong(settings, tile, bad, 0), 1U) << type << " " << redop;
        }
    }
}

TEST(TestPattern, AnAverageMayBeRounded) {
    const TileSettings settings{"float", "avg", 3, 0};
    const auto tile = reduced_tile(settings);
    auto near = tile;
    const float value = std::nextafter(float_at(tile, 7), 100.0F);
    std::memcpy(&near[7 * sizeof value], &value, sizeof value);
    EXPECT_EQ(count_wrong(settings, tile, near, 0), 0U);
    const float far = value * 1.01F;
    std::memcpy(&near[7 * sizeof far], &far, sizeof far);
    EXPECT_EQ(count_wrong(settings, tile, near, 0), 1U);
    const float none = std::nanf("");
    std::memcpy(&near[8 * sizeof none], &none, sizeof none);
    EXPECT_EQ(count_wrong(settings, tile, near, 0), 2U);
}

TEST(TestPattern, ValuesRepeatFromAnyElementOn) {
    const TileSettings settings{"float", "sum", 2, 0};
    const auto tile = reduced_tile(settings);
    std::vector<std::byte> twice(tile);
    twice.insert(twice.end(), tile.begin(), tile.end());
    const auto from_5 = std::span<const std::byte>(twice).subspan(20, tile.size());
    EXPECT_EQ(count_wrong(settings, tile, from_5, 5), 0U);
    EXPECT_EQ(count_wrong(settings, tile, from_5, 5 + 3 * tile_elements), 0U);
    EXPECT_GT(count_wrong(settings, tile, from_5, 6), tile_elements / 2);
}

TEST(TestPattern, AnotherSeedHasOtherValues) {
    const TileSettings first{"int32", "sum", 4, 1};
    const TileSettings second{"int32", "sum", 4, 2};
    EXPECT_GT(count_wrong(first, reduced_tile(first), reduced_tile(second), 0), tile_elements / 2);
}

} // namespace

} // namespace rdma_nccl::bench
