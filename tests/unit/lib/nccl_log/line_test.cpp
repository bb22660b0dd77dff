// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/messages.h"

#include "tests/unit/nccl_log_facts.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

using test::facts_of;
using test::read_log;

TEST(NcclLogLine, PrefixesOfLaunchers) {
    constexpr const char* text = "n01:4711:4722 [3] NCCL INFO Using network IB";
    for (const std::string before :
         {"", "[default0]:", "0: ", " 12: ", "[n01 3] ", "[1,0]<stdout>:", "n01: ", "[2026-01-31 12:00:00] ",
          "12:00:00.123 ", "2026-01-31T12:00:00Z ", "[rank0]: [2026-01-31 12:00:00] ", "\x1b[32m[n01 3]\x1b[0m ",
          "\x1b[1;36m", "\x1b[K\r", "Epoch 1:  10%|#   | 3/30\r", "\xff\xfe ", "n02:3:4 [5] "}) {
        const auto log = read_log(before + text + "\n");
        ASSERT_EQ(log.processes.size(), 1U) << before;
        EXPECT_EQ(log.processes[0].host, "n01") << before;
        EXPECT_EQ(log.processes[0].pid, 4711U) << before;
        EXPECT_EQ(facts_of(log.processes[0]), "IB") << before;
    }
}

TEST(NcclLogLine, WhatFollowsDoesNotMatter) {
    for (const std::string behind : {"\r", "\x1b[0m", " \x1b[m\r", "  "}) {
        EXPECT_EQ(facts_of(read_log("n1:1:1 [0] NCCL INFO Using network IB" + behind + "\n").processes.at(0)), "IB");
        EXPECT_EQ(
            facts_of(read_log("n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0" + behind + "\n")
                         .processes.at(0)),
            "rdma 1");
    }
}

TEST(NcclLogLine, WarningsOfAllVersions) {
    for (const std::string line :
         {"\nn01:4711:4722 [3] transport/net_ib.cc:1295 NCCL WARN ",
          "\nn01:4711:4722 [3] include/socket.h:395 NCCL WARN ",
          "\n[2026-01-31 12:00:00] n01:4711:4722 [3] transport/net_ib.cc:1295 NCCL WARN ",
          "[2026-01-31 12:00:00] n01:4711:4722 [3] transport/net_ib/p2p.cc:95 (ncclIbTest) NCCL WARN ",
          "n01:4711:4722 [-1] misc/ibvwrap.cc:95 NCCL WARN ", "n01:4711:4722 [3] NCCL WARN "}) {
        const auto log = read_log(line + "NET/IB : Unable to open device mlx5_0\n");
        ASSERT_EQ(log.processes.size(), 1U) << line;
        EXPECT_EQ(log.processes[0].host, "n01");
        EXPECT_EQ(log.processes[0].pid, 4711U);
        EXPECT_EQ(log.processes[0].causes.size(), 1U);
        EXPECT_EQ(log.info_lines, 0U);
        EXPECT_EQ(log.nccl_lines, 1U);
    }
}

TEST(NcclLogLine, WithoutAProcessNothingIsSaidOfOne) {
    for (const char* line :
         {"NCCL INFO Using network IB", "[0] NCCL INFO Using network IB", ":1:1 [0] NCCL INFO Using network IB",
          "n01:x:1 [0] NCCL INFO Using network IB", "n01:1: [0] NCCL INFO Using network IB",
          "n01:1:1 [] NCCL INFO Using network IB", "n01:1:1[0] NCCL INFO Using network IB",
          "n01:99999999999:1 [0] NCCL INFO Using network IB", "n01:1:1 [0] NCCLINFO Using network IB",
          "n01:1:1 [0] XCCL INFO Using network IB", "n01:1:1 [0] NCCL TRACE Using network IB"}) {
        EXPECT_TRUE(read_log(std::string(line) + "\n").processes.empty()) << line;
    }
    EXPECT_EQ(read_log("NCCL INFO Using network IB\n").nccl_lines, 1U);
}

TEST(NcclLogLine, VersionLinesOfTheirOwn) {
    for (const char* line : {"NCCL version 2.21.5+cuda12.4", "[default0]:NCCL version 2.21.5+cuda12.4",
                             "\x1b[32m0: NCCL version 2.21.5+cuda12.4\r", "RCCL version : 2.21.5+hip6.0 HEAD:1"}) {
        EXPECT_EQ(read_log(std::string(line) + "\n").version, "2.21.5") << line;
    }
    EXPECT_EQ(read_log("NCCL version detected\nNCCL version 2.x\nNCCL version 2.2\nNCCL version 999999.2.3\n").version,
              "");
    const auto log = read_log("n1:1:1 [0] init.cc:9 NCCL WARN Mismatched NCCL version detected : rank 1 version 2.1\n");
    EXPECT_EQ(log.processes.at(0).causes.size(), 1U);
}

TEST(NcclLogLine, TornLinesCountForWhatIsCertain) {
    // Two processes without newlines between their messages; both are known from lines of their own.
    const auto log = read_log(
        "n01:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        "n02:2:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n"
        "n01:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0n02:2:2 [0] NCCL INFO Using network IB\n"
        "n01:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMAn02:2:2 [0] NCCL INFO Channel "
        "01/0 "
        ": 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
        "n01:1:1 [0] NCCL INFO Using netn02:2:2 [0] NCCL INFO NET/IB : Unable\n"
        "work Socket\n"
        "n01:1:1 [0] NCCL INFO Using network AWS n02:2:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\n"
        "/0/GDRDMA\n");
    ASSERT_EQ(log.processes.size(), 2U);
    EXPECT_EQ(facts_of(log.processes[0]), ""); // their ends may be of the other's name
    EXPECT_EQ(facts_of(log.processes[1]), "IB; gdr 1");
    // A process that is known from torn lines alone is not invented: its host may be longer than it is.
    const auto unknown = read_log("n01:1:1 [0] NCCL INFO Chann02:2:2 [0] NCCL INFO Using network IB\n");
    ASSERT_EQ(unknown.processes.size(), 1U);
    EXPECT_EQ(unknown.processes[0].host, "n01");
}

TEST(NcclLogLine, ColoursAreTakenOut) {
    std::string buffer;
    EXPECT_EQ(without_colours("\x1b[1;31mred\x1b[0m and \x1b]x\x1b", buffer), "red and ]x");
    EXPECT_EQ(without_colours("\x1b[1;31", buffer), "");
    EXPECT_EQ(without_colours("", buffer), "");
}

TEST(NcclLogLine, BinaryJunk) {
    std::string junk;
    std::uint32_t state = 1;
    for (int i = 0; i < 200000; ++i) {
        state = state * 1664525 + 1013904223;
        junk += static_cast<char>(state >> 24);
        if (i % 97 == 0) {
            junk += ":1:1 [0] NCCL INFO ";
        }
    }
    const auto log = read_log(junk);
    EXPECT_EQ(log.connections(), (std::array<std::uint64_t, nccl_transports>{}));
}

} // namespace
} // namespace rdma_nccl
