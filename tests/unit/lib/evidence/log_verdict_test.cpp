// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/verdict.h"

#include "tests/unit/nccl_log_facts.h"
#include "tests/unit/verdict_values.h"

#include <gtest/gtest.h>

namespace rdma_nccl {
namespace {

TEST(LogVerdict, FollowsTheConnections) {
    EXPECT_EQ(judge_log(test::connections(0, 8, 0)), (LogVerdict{Verdict::Used, GpuDirect::On, {}}));
    EXPECT_EQ(judge_log(test::connections(8, 0, 0)),
              (LogVerdict{Verdict::Used,
                          GpuDirect::Off,
                          {"8 connections over RDMA go without GPUDirect, through the host's memory"}}));
    EXPECT_EQ(judge_log(test::connections(1, 7, 0)),
              (LogVerdict{Verdict::Used,
                          GpuDirect::On,
                          {"1 of 8 connections over RDMA goes without GPUDirect, through the host's memory"}}));
    EXPECT_EQ(judge_log(test::connections(0, 6, 2)),
              (LogVerdict{Verdict::Mixed, GpuDirect::On, {"2 of 8 connections over sockets"}}));
    EXPECT_EQ(judge_log(test::connections(0, 0, 1)),
              (LogVerdict{Verdict::NotUsed, GpuDirect::Unknown, {"1 connection over sockets, none over RDMA"}}));
}

TEST(LogVerdict, AnUnknownNetworkMayBeAnything) {
    for (const auto& [rdma, sockets] : {std::pair(0U, 0U), std::pair(3U, 0U), std::pair(0U, 3U)}) {
        auto log = test::connections(0, rdma, sockets);
        log.other = 1;
        log.networks = {"FasTrak"};
        const auto verdict = judge_log(log);
        EXPECT_EQ(verdict.verdict, Verdict::Unknown);
        EXPECT_NE(verdict.why.at(0).find("over FasTrak, which may be RDMA or not"), std::string::npos);
    }
    auto log = test::connections(0, 1, 1);
    log.other = 1;
    EXPECT_EQ(judge_log(log).verdict, Verdict::Mixed); // whatever the third is
}

TEST(LogVerdict, WithoutConnectionsOverANetwork) {
    auto log = test::connections(0, 0, 0);
    log.networks = {"IB"};
    EXPECT_EQ(judge_log(log).verdict, Verdict::Unknown); // lazy connections, or the log is cut
    EXPECT_EQ(judge_log(log).why.at(0).find("no connection between nodes is in the log (NCCL chose IB): "), 0U);
    log.nodes = 2;
    log.local = 4;
    EXPECT_EQ(judge_log(log).verdict, Verdict::Unknown);
    log.nodes = 1;
    EXPECT_EQ(judge_log(log).verdict, Verdict::Idle);
    log.nodes = 2;
    log.nvlink = 1;
    EXPECT_EQ(judge_log(log).verdict, Verdict::Idle);
    EXPECT_EQ(judge_log(log).gpu_direct, GpuDirect::Unknown);
}

TEST(LogVerdict, ACallThatFailedIsMixed) {
    const std::string connection = "n01:7:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n";
    const auto verdict_of = [](const std::string& text) { return judge_log(summary(test::read_log(text))).verdict; };
    const auto verdict = [&](const std::string& line) {
        return verdict_of(connection + "n01:7:8 [0] NCCL INFO " + line + "\n");
    };
    for (const char* line : {"group.cc:75 -> 2 [Async thread]", "/build/rccl/hipify/src/group.cc:116 -> 3",
                             "enqueue.cc:2432 -> 6", "init.cc:1400 -> 1 [Async thread]",
                             "src/proxy.cc:9 -> 3 [Proxy Thread]", "proxy.cc:9 -> 6 [Progress Thread]"}) {
        EXPECT_EQ(verdict(line), Verdict::Mixed) << line;
    }
    for (const char* line :
         {"transport/net_ib.cc:652 -> 2", "transport/net.cc:79 -> 3", "group.cc:75 -> 7 [Async thread]",
          "enqueue.cc:10 -> 0", "see group.cc:75 -> 2", "group.cc:75 2",
          "enqueue.cc:2432 -> 4", // the program's fault: an invalid argument, or use
          "group.cc:75 -> 5"}) {
        EXPECT_EQ(verdict(line), Verdict::Used) << line;
    }
    // Nothing was connected yet, or not by this process.
    const std::string failure = "n01:7:8 [0] NCCL INFO group.cc:75 -> 2 [Async thread]\n";
    EXPECT_EQ(verdict_of(failure + connection), Verdict::Used);
    EXPECT_EQ(verdict_of("n01:9:9 [1] NCCL INFO group.cc:75 -> 2\n" + connection + failure), Verdict::Mixed);
    EXPECT_EQ(verdict_of(connection + "n01:9:9 [1] NCCL INFO group.cc:75 -> 2\n"), Verdict::Used);
}

TEST(LogVerdict, RdmaThatFailedIsMixed) {
    auto log = test::connections(0, 8, 0);
    log.failed = true;
    EXPECT_EQ(judge_log(log),
              (LogVerdict{Verdict::Mixed, GpuDirect::On, {"8 connections over RDMA; then NCCL failed"}}));
    log = test::connections(0, 0, 8);
    log.failed = true;
    EXPECT_EQ(judge_log(log).verdict, Verdict::NotUsed);
    const std::string connection = "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n";
    const std::string lost = "NET/IB : Got completion from peer 10.0.0.2<4711> with status=12 opcode=0\n";
    const auto verdict = [](const std::string& text) { return judge_log(summary(test::read_log(text))).verdict; };
    EXPECT_EQ(verdict(connection + "n1:1:1 [0] transport/net_ib.cc:95 NCCL WARN " + lost), Verdict::Mixed);
    EXPECT_EQ(verdict(connection + "n1:1:1 [0] NCCL INFO " + lost), Verdict::Used); // NCCL goes on
    // A completion is one of RDMA, whether the log has its connection or not.
    const std::string warning = "n1:1:1 [0] transport/net_ib.cc:95 NCCL WARN " + lost;
    EXPECT_EQ(verdict(warning), Verdict::Mixed);
    EXPECT_EQ(verdict("n1:1:1 [0] NCCL INFO Using network IB\n" + warning), Verdict::Mixed);
}

TEST(LogVerdict, SocketsThatAreChosenNeedNoConnection) {
    auto log = test::connections(0, 0, 0);
    log.networks = {"Socket"};
    EXPECT_EQ(judge_log(log).verdict, Verdict::Unknown); // of one node, perhaps
    log.nodes = 2;
    EXPECT_EQ(judge_log(log).verdict, Verdict::NotUsed);
    EXPECT_EQ(judge_log(log).why.at(0), "NCCL chose Socket for what goes between its 2 nodes");
    log.networks = {"IB", "Socket"};
    EXPECT_EQ(judge_log(log).verdict, Verdict::Unknown);
}

TEST(LogVerdict, SaysWhatCouldNotBeRead) {
    auto log = test::connections(0, 0, 0);
    log.unread = 3;
    EXPECT_EQ(judge_log(log).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_log(log).why.at(0).find("no connection between nodes could be read: "), 0U);
}

TEST(LogVerdict, NothingSaidNothingKnown) {
    LogEvidence log;
    EXPECT_EQ(judge_log(log).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_log(log).why.at(0).find("the log has no line of NCCL"), 0U);
    log.ranks = 1;
    EXPECT_EQ(judge_log(log).why.at(0).find("the log has warnings of NCCL alone"), 0U);
}

// NCCL before 2.20 does not say how many nodes there are.
TEST(LogVerdict, AllRanksOnOneHostAreOneNode) {
    const std::string first = "n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 - Init COMPLETE\n"
                              "n1:1:1 [0] NCCL INFO Channel 00 : 0[1] -> 1[2] via P2P/IPC\n";
    const std::string second = ":2:2 [1] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 1 busId 2 - Init COMPLETE\n";
    const auto verdict = [](const std::string& text) { return judge_log(summary(test::read_log(text))).verdict; };
    EXPECT_EQ(verdict(first + "n1" + second), Verdict::Idle);
    EXPECT_EQ(verdict(first + "n2" + second), Verdict::Unknown);
    EXPECT_EQ(verdict(first), Verdict::Unknown);
}

// Nor does every log have the lines of communicators, or a process for each rank.
TEST(LogVerdict, ARingInsideOneHostIsOneNode) {
    const auto verdict = [](const std::string& host, const std::string& others, const std::string& more = "") {
        std::string text = more;
        for (int rank = 0; rank < 4; ++rank) {
            text += format_text("{}:1:{} [{}] NCCL INFO Channel 00/0 : {}[{}] -> {}[{}] via P2P/direct pointer\n",
                                rank == 0 ? host : others, rank, rank, rank, rank, (rank + 1) % 4, (rank + 1) % 4);
        }
        return judge_log(summary(test::read_log(text))).verdict;
    };
    EXPECT_EQ(verdict("n1", "n1"), Verdict::Idle);
    EXPECT_EQ(verdict("n1", "n2"), Verdict::Unknown);
    EXPECT_EQ(verdict("(none)", "(none)"), Verdict::Unknown);
    EXPECT_EQ(verdict("n1", "n1", "[0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"), Verdict::Idle); // cut off
    EXPECT_EQ(verdict("n1", "n1", "n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 - Init COMPLETE\n"),
              Verdict::Idle);
    EXPECT_EQ(verdict("n1", "n1", "n1:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 - Init COMPLETE\n"),
              Verdict::Unknown);
}

TEST(LogVerdict, Names) {
    EXPECT_EQ(name_of(Verdict::Used), "USED");
    EXPECT_EQ(name_of(Verdict::Mixed), "MIXED");
    EXPECT_EQ(name_of(Verdict::NotUsed), "NOT USED");
    EXPECT_EQ(name_of(Verdict::Idle), "IDLE");
    EXPECT_EQ(name_of(Verdict::Unknown), "UNKNOWN");
}

} // namespace
} // namespace rdma_nccl
