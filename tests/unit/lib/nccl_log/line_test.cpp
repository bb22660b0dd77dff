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
            "IB; rdma 1");
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

TEST(NcclLogLine, LinesWithoutAReadableHostAreThoseOfAProcessWithoutOne) {
    struct Prefix {
        const char* text;
        std::uint32_t pid;
    };
    for (const auto& [text, pid] :
         {Prefix{"(none):4711:4722 [3] ", 4711}, Prefix{"<node-1>:4711:4722 [3] ", 4711},
          Prefix{":4711:4722 [3] ", 4711}, Prefix{"4722 [3] ", 0}, Prefix{"[3] ", 0}, Prefix{" [3] ", 0}, Prefix{"", 0},
          Prefix{"[2026-01-31 12:00:00] ", 0}, Prefix{"12:00:00 [3] ", 0}, Prefix{"2026-01-31T12:00:00 [3] ", 0},
          Prefix{"n01:x:1 [0] ", 0}, Prefix{"n01:1: [0] ", 0}, Prefix{"n01:99999999999:1 [0] ", 0},
          Prefix{"worker [0] ", 0}}) {
        const auto log = read_log(text + std::string("NCCL INFO Using network IB\n"));
        ASSERT_EQ(log.processes.size(), 1U) << text;
        EXPECT_EQ(log.processes[0].host, "") << text;
        EXPECT_EQ(log.processes[0].pid, pid) << text;
        EXPECT_EQ(facts_of(log.processes[0]), "IB") << text;
        EXPECT_EQ(log.nccl_lines, 1U) << text;
        EXPECT_EQ(log.unread_lines, 0U) << text;
    }
    // Of many processes: one row, whose rank nobody knows.
    const auto log = read_log("[0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
                              "[1] NCCL INFO comm 0x1 rank 1 nRanks 16 nNodes 2 localRanks 8 localRank 1 MNNVL 0\n"
                              "[0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0\n"
                              "[1] NCCL INFO Channel 00/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA\n");
    ASSERT_EQ(log.processes.size(), 1U);
    EXPECT_FALSE(log.processes[0].rank);
    EXPECT_EQ(facts_of(log.processes[0]), " on 2; IB; rdma 1, gdr 1");
}

TEST(NcclLogLine, WhatStandsInTheBracketDoesNotMatter) {
    for (const std::string device : {"[3]", "[-1]", "[ 3]", "[3 ]", "[]", "[0,1]"}) {
        const auto log = read_log("n01:4711:4722 " + device + " NCCL INFO Using network IB\n");
        ASSERT_EQ(log.processes.size(), 1U) << device;
        EXPECT_EQ(log.processes[0].host, "n01") << device;
        EXPECT_EQ(log.processes[0].pid, 4711U) << device;
    }
    EXPECT_EQ(read_log("n01:1:1[0] NCCL INFO Using network IB\n").processes.at(0).host, "n01");
}

TEST(NcclLogLine, WhatIsNoMessage) {
    for (const char* line : {"n01:1:1 [0] NCCLINFO Using network IB", "n01:1:1 [0] XCCL INFO Using network IB",
                             "n01:1:1 [0] NCCL TRACE Using network IB", "+ grep -c 'NCCL INFO Using network IB' log",
                             "look for \"NCCL INFO Using network IB\""}) {
        const auto log = read_log(std::string(line) + "\n");
        EXPECT_TRUE(log.processes.empty()) << line;
        EXPECT_EQ(log.nccl_lines, 0U) << line;
        EXPECT_EQ(log.unread_lines, 0U) << line;
    }
}

TEST(NcclLogLine, WhatFollowsAQuoteWithoutAProcessIsNotUnderstood) {
    for (const char* line : {"it's slow: [0] NCCL INFO Using network IB", "load 'a.pt' [0] NCCL INFO Using network IB",
                             "[0] \"x\" transport/net_ib.cc:1295 NCCL WARN Unable to open device"}) {
        const auto log = read_log(std::string(line) + "\n");
        EXPECT_TRUE(log.processes.empty()) << line;
        EXPECT_EQ(log.nccl_lines, 1U) << line;
        EXPECT_EQ(log.unread_lines, 1U) << line;
    }
    const auto log = read_log("it's slow: n01:4711:4722 [0] NCCL INFO Using network IB\n");
    EXPECT_EQ(facts_of(log.processes.at(0)), "IB");
    EXPECT_EQ(log.unread_lines, 0U);
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

std::string plain(std::string_view line) {
    std::string buffer;
    return std::string(take_plain(line, buffer));
}

TEST(NcclLogLine, ColoursAndOtherEscapesAreTakenOut) {
    EXPECT_EQ(plain("\x1b[1;31mred\x1b[0m and x\x1b"), "red and x");
    EXPECT_EQ(plain("\x1b[1;31"), "");
    EXPECT_EQ(plain(""), "");
    EXPECT_EQ(plain("\x1b]0;title\a\x1b]8;;http://x\x1b\\link\x1b(B\x1b[m\x1bM\x1b]cut"), "linkcut");
    EXPECT_EQ(plain(R"(^[[32ma\x1b[0mb\033[1;36mc\e[md\u001b[0me#033[0mf[32mg)"), "abcdefg");
    EXPECT_EQ(plain(R"(C:\eigen ^x [mlx5_0] [1] #03)"), R"(C:\eigen ^x [mlx5_0] [1] #03)");
    EXPECT_EQ(plain(R"(a\nb#012c\u003c0\u003e\u2502\u12)"), "a\nb\nc<0>|\\u12");
}

/// Each has one process, on n01, with one fact.
TEST(NcclLogLine, WrappersInventNoHosts) {
    constexpr const char* connection = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0";
    struct Wrapped {
        std::string before;
        std::string behind;
    };
    const Wrapped wrapped[] = {
        // Logs of containers: Docker's json-file (its encoder escapes < and >), CRI's, Fluent Bit's, logfmt's, and JSON
        // in it
        {R"({"log":")", R"(\n","stream":"stdout","time":"2026-01-31T12:00:00.1Z"})"},
        {R"({"log":"\n)", R"(\n","stream":"stdout"})"},
        {R"({"log":"\u001b[32m)", R"(\u001b[0m\r\n","stream":"stdout"})"},
        {R"({"log":"\t)", R"("})"},
        {R"({"stream": "stdout", "kubernetes": {"pod": "a \"b\""}, "message": ")", R"(", "more": 1})"},
        {R"(trainer-0 {"log":")", R"(\n"})"},
        {R"({"log":"{\"msg\":\")", R"(\"}\n","stream":"stdout"})"},
        {R"({"log":"{\"msg\":\"\\n)", R"(\\n\"}\n","stream":"stdout"})"},
        {R"({"lines":["loss 0.5",")", R"(","loss 0.4"]})"},
        {R"(level=info msg=")", R"(")"},
        {R"(")", R"(","2026-01-31 12:00:00")"},
        {R"({'log': 'loss\n)", R"(\n'})"},
        {"2026-01-31T12:00:00.123456789Z stdout F ", ""},
        {R"(2026-01-31T12:00:00.123456789Z stdout F {"log":"\n)", R"(\n"})"},
        // Frames
        {"\u2502 ", "      \u2502"},
        {"\u2503", "  \u2503\r"},
        {"| ", "   |"},
        {"trainer-1  | ", ""},
        {"# ", "   #"},
        // Ray
        {"(RayTrainWorker pid=4711, ip=10.0.0.2) ", ""},
        {"\x1b[36m(RayTrainWorker pid=4711, ip=10.0.0.2)\x1b[0m ", "\x1b[32m [repeated 14x across cluster]\x1b[0m"},
        {"[36m(pid=4711)[0m ", "[32m [repeated 2x across cluster] (Ray deduplicates logs by default.)[0m"},
        // Times without a blank behind them (NCCL_DEBUG_TIMESTAMP_FORMAT)
        {"2026-01-31T12:00:00Z", ""},
        {"2026-01-31 12:00:00+0900", ""},
        {"2026-01-31 12:00:00-05:00", ""},
        {"2026-01-31 12:00:00.123-05", ""},
        {"[default0]:12:00:00,123456", ""},
        {"12:00:00 +0900", ""},
        {"12:00:00 -0900", ""},
        {"12:00:00UTC", ""},
        {"2026-01-31 12:00:00 CEST", ""},
        {"12:00:00", ""},
        // Escapes that a copy shows as text, and others
        {"[32m", "[0m"},
        {"[1;36m", "[0m"},
        {"^[[32m", "^[[0m"},
        {R"(\033[32m)", R"(\033[0m)"},
        {R"(\n)", R"(\n)"},
        {"Jan 31 12:00:00 n01 python[4711]: #012", "#012"},
        {"\x1b(B\x1b[m", "\x1b(B"},
        {"\x1b]0;title\a", ""},
    };
    for (const auto& [before, behind] : wrapped) {
        for (const std::string text : {"Using network IB", connection}) {
            const auto line = before + "n01:4711:4722 [3] NCCL INFO " + text + behind;
            const auto log = read_log(line + "\n");
            ASSERT_EQ(log.processes.size(), 1U) << line;
            EXPECT_EQ(log.processes[0].host, "n01") << line;
            EXPECT_EQ(log.processes[0].pid, 4711U) << line;
            EXPECT_EQ(facts_of(log.processes[0]), text == connection ? "IB; rdma 1" : "IB") << line;
            EXPECT_EQ(log.lines, 1U) << line;
        }
    }
}

TEST(NcclLogLine, HostsThatLookLikeTimesStay) {
    for (const std::string host : {"EST-node1", "UTC01", "Zeus", "00node", "12"}) {
        EXPECT_EQ(read_log("12:00:00 " + host + ":1:1 [0] NCCL INFO Using network IB\n").processes.at(0).host, host);
        EXPECT_EQ(read_log(host + ":1:1 [0] NCCL INFO Using network IB\n").processes.at(0).host, host);
    }
}

TEST(NcclLogLine, ColoursInsideTheMarker) {
    for (const char* marker :
         {"NCCL \x1b[32mINFO\x1b[0m ", "\x1b[01;31m\x1b[KNCCL\x1b[m\x1b[K INFO ", "NC\x1b[1mCL INFO ",
          "NCCL [32mINFO[0m ", "NCCL\u00a0INFO ", R"(NCCL \u001b[32mINFO\u001b[0m )", "NCCL ^[[32mINFO^[[0m "}) {
        const auto log = read_log(std::string("n01:4711:4722 [3] ") + marker + "Using network IB\n");
        ASSERT_EQ(log.processes.size(), 1U) << marker;
        EXPECT_EQ(facts_of(log.processes[0]), "IB") << marker;
    }
}

TEST(NcclLogLine, AFullFrameMayHaveCutTheText) {
    const auto facts = [](const char* text) {
        return facts_of(read_log(std::string("\u2502 n01:1:1 [0] NCCL INFO ") + text + "\n").processes.at(0));
    };
    EXPECT_EQ(facts("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0 \u2502"), ""); // GPUDirect may follow
    EXPECT_EQ(facts("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\u2502"), "IB; gdr 1");
    EXPECT_EQ(facts("Using network AWS \u2502"), "");
}

TEST(NcclLogLine, OneStringMayHaveManyLines) {
    const auto log = read_log(R"({"log":"n01:1:1 [0] NCCL INFO Using network IB\nn02:2:2 [0] NCCL INFO Using network )"
                              R"(Socket\n"} {"log":"n03:3:3 [0] NCCL INFO Using network IB\n"})"
                              "\n");
    ASSERT_EQ(log.processes.size(), 3U);
    EXPECT_EQ(facts_of(log.processes[0]), "IB");
    EXPECT_EQ(facts_of(log.processes[1]), "Socket");
    EXPECT_EQ(log.processes[2].host, "n03");
}

TEST(NcclLogLine, WhatRayLeftOutIsCounted) {
    const auto log =
        read_log("(W pid=1) n01:1:1 [0] NCCL INFO Using network IB [repeated 14x across cluster]\n"
                 "(W pid=1) n01:1:1 [0] NCCL INFO Bootstrap : Using e:1<0> [repeated 2x across cluster] (Ray "
                 "deduplicates logs by default. Set RAY_DEDUP_LOGS=0)\n"
                 "(W pid=1) loss 0.5 [repeated 3x across cluster]\n");
    EXPECT_EQ(log.repeated_lines, 16U);
    EXPECT_EQ(facts_of(log.processes.at(0)), "IB");
    // A number that is none does not wrap the sum around.
    const std::string many = "(W pid=1) NCCL INFO x [repeated 18446744073709551615x across cluster]\n";
    EXPECT_EQ(read_log("(W pid=1) NCCL INFO x [repeated 2x across cluster]\n" + many).repeated_lines, 2U);
    EXPECT_EQ(read_log("(W pid=1) NCCL INFO x [repeated 4294967295x across cluster]\n"
                       "(W pid=1) NCCL INFO x [repeated 1x across cluster]\n")
                  .repeated_lines,
              4294967296U);
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
