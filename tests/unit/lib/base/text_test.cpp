// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"

#include <gtest/gtest.h>
#include <set>

namespace rdma_nccl {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Text, TrimsAndSplits) {
    EXPECT_EQ(trim(" \t a b \r\n"), "a b");
    EXPECT_EQ(trim(" \n"), "");
    EXPECT_EQ(split("a,,b,", ','), (Parts{"a", "", "b", ""}));
    EXPECT_EQ(split("", ','), (Parts{""}));
    EXPECT_EQ(split_words("  a \t bc  "), (Parts{"a", "bc"}));
    EXPECT_TRUE(split_words(" ").empty());
    EXPECT_EQ(split_once("a=b=c", '=').value, "b=c");
    EXPECT_FALSE(split_once("a", '=').value.has_value());
}

TEST(Text, JoinsAndFillsCells) {
    EXPECT_EQ(joined(Parts{"a", "b"}), "a, b");
    EXPECT_EQ(joined(std::set<std::string>{"b", "a"}, "; "), "a; b");
    EXPECT_EQ(joined(Parts{}), "");
    EXPECT_EQ(joined_some({"a", "b"}, 2), "a, b");
    EXPECT_EQ(joined_some({"a", "b", "c"}, 2), "a, b and 1 more");
    EXPECT_EQ(or_dash(""), "-");
    EXPECT_EQ(or_dash("a"), "a");
}

TEST(Text, NumbersAreWholeOrNothing) {
    EXPECT_EQ(parse_number<unsigned>("42"), 42U);
    EXPECT_EQ(parse_number<unsigned>("ff", 16), 255U);
    for (const char* bad : {"", " 1", "1 ", "-1", "+1", "0x1", "4294967296", "1.0"}) {
        EXPECT_FALSE(parse_number<unsigned>(bad).has_value()) << bad;
    }
}

TEST(Text, SizesHaveUnitsOrNone) {
    EXPECT_EQ(parse_size("8"), 8U);
    EXPECT_EQ(parse_size("64kb"), 65536U);
    for (const auto* const text : {"1048576", "1024K", "1m", "1MB", "1MiB", "1048576B"}) {
        EXPECT_EQ(parse_size(text), 1U << 20) << text;
    }
    for (const auto* const text : {"", "M", "MB", "B", "1.5M", "1MM", "-1", "1 M", "8iB", "iB", "16777216T"}) {
        EXPECT_EQ(parse_size(text), std::nullopt) << text;
    }
}

TEST(Text, NearestWordIsNearOrNone) {
    const Parts words = {"layout", "verbose", "port", "port_range"};
    EXPECT_EQ(nearest_word("layuot", words), "layout");
    EXPECT_EQ(nearest_word("verb", words), "verbose");
    EXPECT_EQ(nearest_word("prt", words), "port");
    EXPECT_FALSE(nearest_word("zzz", words).has_value());
    EXPECT_FALSE(nearest_word("", words).has_value());
    EXPECT_FALSE(nearest_word(std::string(100000, 'a'), words).has_value());
}

TEST(Text, PrintableHidesControlBytesAndCuts) {
    EXPECT_EQ(printable("a\x1b[31m\n"), "a?[31m?");
    EXPECT_EQ(printable("abcdef", 3), "abc...");
    EXPECT_EQ(base_name("/usr/bin/torchrun"), "torchrun");
    EXPECT_EQ(base_name("torchrun"), "torchrun");
}

} // namespace
} // namespace rdma_nccl
