// SPDX-License-Identifier: Apache-2.0
#include "tools/run/options/options.h"

#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

const PrefixValues values{"n01", "11", "3", "1", "trainer", "stderr", "10:00"};

std::string rendered(std::string_view text) {
    const auto prefix = PrefixTemplate::parse(text);
    return prefix ? prefix->render(values) : prefix.error().message;
}

TEST(RunPrefix, Placeholders) {
    EXPECT_EQ(rendered("[{host} {rank}] "), "[n01 11] ");
    EXPECT_EQ(rendered("{local_rank}/{node_rank}/{role}/{stream}/{time}"), "3/1/trainer/stderr/10:00");
    EXPECT_EQ(rendered(""), "");
    EXPECT_EQ(rendered("plain: "), "plain: ");
    EXPECT_EQ(rendered("{{{rank}}} {{host}}"), "{11} {host}");
}

TEST(RunPrefix, OnlyTheTimeChanges) {
    EXPECT_TRUE(PrefixTemplate::parse("{time} ")->has_time());
    EXPECT_FALSE(PrefixTemplate::parse("time {rank} {{time}}")->has_time());
}

TEST(RunPrefix, UnknownOnesAreNamed) {
    EXPECT_EQ(rendered("[{hots}]"),
              "prefix '[{hots}]': {hots} is unknown, did you mean {host}; there are {host}, {rank}, "
              "{local_rank}, {node_rank}, {role}, {time} and {stream}");
    EXPECT_NE(rendered("{}").find("{} is unknown; there are"), std::string::npos);
    EXPECT_NE(rendered("{a\nb\x1b}").find("{a?b?} is unknown"), std::string::npos);
}

TEST(RunPrefix, SingleBraces) {
    EXPECT_EQ(rendered("a { b"), "prefix 'a { b': a single '{' at byte 3; write '{{' for the character itself");
    EXPECT_EQ(rendered("rank}"), "prefix 'rank}': a single '}' at byte 5; write '}}' for the character itself");
}

} // namespace

} // namespace rdma_nccl::run
