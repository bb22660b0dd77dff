// SPDX-License-Identifier: Apache-2.0
// One line, compressed by `gzip -n -9`, `xz -9e --check=crc32` and `zstd -19 --check`: read whole, in pieces, cut and
// damaged; and a bomb.
#include "tools/verify/compression.h"

#include "config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace rdma_nccl {
namespace {

constexpr std::string_view text = "n01:1:1 [0] NCCL INFO Using network IB\n";

template<std::size_t size>
std::string bytes(const std::array<std::uint8_t, size>& all) {
    return {all.begin(), all.end()};
}

const std::vector<std::string>& samples() {
    static const std::vector<std::string> all = {
        bytes(std::to_array<std::uint8_t>({0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x33,
                                           0x30, 0xb4, 0x02, 0x42, 0x85, 0x68, 0x83, 0x58, 0x05, 0x3f, 0x67, 0x67,
                                           0x1f, 0x05, 0x4f, 0x3f, 0x37, 0x7f, 0x85, 0xd0, 0xe2, 0xcc, 0xbc, 0x74,
                                           0x85, 0xbc, 0xd4, 0x92, 0xf2, 0xfc, 0xa2, 0x6c, 0x05, 0x4f, 0x27, 0x2e,
                                           0x00, 0xdc, 0xb5, 0x37, 0x38, 0x27, 0x00, 0x00, 0x00})),
        bytes(std::to_array<std::uint8_t>(
            {0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00, 0x21, 0x01,
             0x1c, 0x00, 0x00, 0x00, 0x10, 0xcf, 0x58, 0xcc, 0x01, 0x00, 0x26, 0x6e, 0x30, 0x31, 0x3a, 0x31,
             0x3a, 0x31, 0x20, 0x5b, 0x30, 0x5d, 0x20, 0x4e, 0x43, 0x43, 0x4c, 0x20, 0x49, 0x4e, 0x46, 0x4f,
             0x20, 0x55, 0x73, 0x69, 0x6e, 0x67, 0x20, 0x6e, 0x65, 0x74, 0x77, 0x6f, 0x72, 0x6b, 0x20, 0x49,
             0x42, 0x0a, 0x00, 0x00, 0xdc, 0xb5, 0x37, 0x38, 0x00, 0x01, 0x3b, 0x27, 0x78, 0xef, 0x3e, 0xb9,
             0x90, 0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a})),
        bytes(std::to_array<std::uint8_t>(
            {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x39, 0x01, 0x00, 0x6e, 0x30, 0x31, 0x3a, 0x31, 0x3a, 0x31, 0x20, 0x5b,
             0x30, 0x5d, 0x20, 0x4e, 0x43, 0x43, 0x4c, 0x20, 0x49, 0x4e, 0x46, 0x4f, 0x20, 0x55, 0x73, 0x69, 0x6e, 0x67,
             0x20, 0x6e, 0x65, 0x74, 0x77, 0x6f, 0x72, 0x6b, 0x20, 0x49, 0x42, 0x0a, 0x95, 0xd5, 0x1d, 0x7f}))};
    return all;
}

constexpr std::size_t longest_magic = 6; // of xz

struct Read {
    std::string text;
    std::string problem;
};

Read read_in_pieces(std::string_view data, std::size_t size) {
    Read read;
    const auto sink = [&](std::string_view piece) { read.text += piece; };
    auto decompressor = Decompressor::open(data);
    auto done = decompressor ? Result<void>() : Result<void>(tl::unexpected(decompressor.error()));
    for (; done && !data.empty(); data.remove_prefix(std::min(size, data.size()))) {
        done = (*decompressor)->read(data.substr(0, size), sink);
    }
    done = done ? (*decompressor)->finish() : done;
    read.problem = done ? "" : done.error().message;
    return read;
}

/// The libraries are there wherever this is developed (build-aux/deps), but a build does without.
bool can_read(const std::string& sample) {
    return Decompressor::open(sample).has_value();
}

TEST(Compression, EachLibraryOfTheBuildIsLoaded) {
    std::vector<std::string> built;
#ifdef HAVE_ZLIB
    built.push_back(samples()[0]);
#endif
#ifdef HAVE_LZMA
    built.push_back(samples()[1]);
#endif
#ifdef HAVE_ZSTD
    built.push_back(samples()[2]);
#endif
    for (const auto& sample : built) {
        EXPECT_EQ(read_in_pieces(sample, sample.size()).text, text);
    }
}

TEST(Compression, IsKnownByTheFirstBytes) {
    for (const auto& sample : samples()) {
        const auto opened = Decompressor::open(sample);
        EXPECT_TRUE(!opened || *opened != nullptr);
    }
    for (const std::string_view none : {std::string_view(), text, std::string_view("\x1f"), std::string_view("BZ")}) {
        EXPECT_EQ(Decompressor::open(none).value(), nullptr);
    }
    EXPECT_EQ(read_in_pieces("BZh91AY&SY", 10).problem,
              "compressed with bzip2: pipe what bzcat prints into rdma-nccl verify --log -");
}

TEST(Compression, PiecesOfAnySizeAndManyParts) {
    for (const auto& sample : samples()) {
        if (!can_read(sample)) {
            continue;
        }
        for (const std::size_t size : {1U, 2U, 7U, 64U, 1000U}) {
            const auto read = read_in_pieces(sample, size);
            EXPECT_EQ(read.text, text);
            EXPECT_EQ(read.problem, "");
            // Files that were joined, as `cat` and pigz do.
            const auto twice = read_in_pieces(sample + sample, size);
            EXPECT_EQ(twice.text, std::string(text) + std::string(text));
            EXPECT_EQ(twice.problem, "");
        }
    }
}

TEST(Compression, WhatIsCutOffIsSaid) {
    for (const auto& sample : samples()) {
        if (!can_read(sample)) {
            continue;
        }
        for (std::size_t size = longest_magic; size < sample.size(); ++size) {
            const auto read = read_in_pieces(std::string_view(sample).substr(0, size), 10);
            EXPECT_EQ(std::string_view(text).substr(0, read.text.size()), read.text);
            EXPECT_NE(read.problem.find("cut off"), std::string::npos) << size << ": " << read.problem;
        }
    }
}

/// Any byte may be wrong: it is said, or it did not matter. What was before the damage is there.
TEST(Compression, DamageIsSaid) {
    for (const auto& sample : samples()) {
        if (!can_read(sample)) {
            continue;
        }
        for (std::size_t at = longest_magic; at < sample.size(); ++at) {
            auto damaged = sample;
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
            const auto read = read_in_pieces(damaged, 1000);
            EXPECT_TRUE(!read.problem.empty() || read.text == text) << at;
        }
        auto damaged = sample + "no compressed data";
        const auto read = read_in_pieces(damaged, 1000);
        EXPECT_EQ(read.text, text);
        EXPECT_NE(read.problem.find("could not be decompressed"), std::string::npos) << read.problem;
    }
}

/// RFC 8878: a frame with a window of 128 KiB, and blocks of a byte that is repeated 128 Ki times.
TEST(Compression, ABombIsRefused) {
    const std::string begin("\x28\xb5\x2f\xfd\x00\x38", 6);
    const std::string block("\x02\x00\x10x", 4);
    if (!can_read(begin)) {
        GTEST_SKIP() << "built without libzstd";
    }
    auto decompressor = Decompressor::open(begin);
    std::uint64_t size = 0;
    std::size_t largest = 0;
    const auto sink = [&](std::string_view piece) {
        size += piece.size();
        largest = std::max(largest, piece.size());
    };
    auto done = (*decompressor)->read(begin, sink);
    std::string blocks;
    for (int i = 0; i < 1000; ++i) {
        blocks += block;
    }
    for (int i = 0; done && i < 100; ++i) {
        done = (*decompressor)->read(blocks, sink);
    }
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("zstdcat"), std::string::npos) << done.error().message;
    EXPECT_LT(size, std::uint64_t{2} << 30);
    EXPECT_LE(largest, std::size_t{256} << 10);
}

} // namespace
} // namespace rdma_nccl
