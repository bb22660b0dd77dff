// SPDX-License-Identifier: Apache-2.0
#include "lib/evidence/verdict.h"
#include "tests/unit/verdict_values.h"

#include <gtest/gtest.h>
#include <limits>

namespace rdma_nccl {
namespace {

using namespace test;
using Texts = std::vector<std::string>;

Verdict verdict_of(const Bytes& rdma, const Bytes& sockets) {
    return judge_node(node(rdma, sockets)).verdict;
}

Verdict verdict_of(std::uint64_t rdma, std::uint64_t sockets) {
    return judge_node(node(rdma, sockets)).verdict;
}

TEST(NodeVerdict, FollowsTheAmounts) {
    struct Row {
        std::uint64_t rdma, sockets;
        Verdict verdict;
    };
    constexpr std::uint64_t all = 1000 * mib;
    for (const auto& row : std::initializer_list<Row>{
             {0, 0, Verdict::Idle},
             {64 * mib - 1, 64 * mib - 1, Verdict::Idle},
             {64 * mib, 0, Verdict::Used},
             {10 * gib, 0, Verdict::Used},
             {0, 64 * mib, Verdict::NotUsed},
             {mib - 1, 64 * mib, Verdict::NotUsed}, // 1.5 %, but noise
             {mib, 64 * mib, Verdict::Mixed},
             {0, 10 * gib, Verdict::NotUsed},
             {all / 100 - 1, all - all / 100 + 1, Verdict::NotUsed},
             {all / 100, all - all / 100, Verdict::Mixed},
             {all / 10 * 9, all / 10, Verdict::Used},
             {all / 10 * 9 - 1, all / 10 + 1, Verdict::Mixed},
             {all / 2, all / 2, Verdict::Mixed},
             {std::numeric_limits<std::uint64_t>::max() / 4, 0, Verdict::Used},
         }) {
        EXPECT_EQ(verdict_of(row.rdma, row.sockets), row.verdict) << row.rdma << " " << row.sockets;
    }
}

TEST(NodeVerdict, FilesThatAreReadOrWrittenDoNotCount) {
    for (const Bytes& files : {Bytes{0, 30 * gib, false}, Bytes{30 * gib, 0, false}}) {
        const auto verdict = judge_node(node({10 * gib, 10 * gib, false}, files));
        EXPECT_EQ(verdict.verdict, Verdict::Used);
        EXPECT_DOUBLE_EQ(verdict.share, 1);
        EXPECT_EQ(verdict.elsewhere, files);
        EXPECT_EQ(verdict.notes, Texts{"32.2 GB over sockets went one way, like file I/O, and do not count"});
    }
    // Where RDMA goes one way alone, the other way over sockets may be the answer to it.
    EXPECT_EQ(verdict_of({10 * gib, 0, false}, {0, 10 * gib, false}), Verdict::Mixed);
}

TEST(StepVerdict, WithoutAllSumsNobodyIsAccused) {
    const auto reads = [](std::uint64_t rdma, const char* name) {
        return node({rdma, rdma, false}, {gib, 200 * gib, false}, name);
    };
    EXPECT_EQ(judge_step({reads(gib, "n1"), reads(gib, "n2")}, {}).verdict, Verdict::Mixed);
    EXPECT_EQ(judge_step({reads(0, "n1"), reads(0, "n2")}, {}).verdict, Verdict::NotUsed);
    for (const std::uint64_t rdma : {std::uint64_t{0}, gib}) {
        EXPECT_EQ(judge_step({reads(rdma, "n1"), reads(rdma, "n2")}, {"n3"}).verdict, Verdict::Unknown) << rdma;
        auto lost = reads(rdma, "n2");
        lost.traffic.sockets.at_least = true;
        EXPECT_EQ(judge_step({reads(rdma, "n1"), lost}, {}).verdict, Verdict::Unknown) << rdma;
    }
}

TEST(NodeVerdict, TheWorseDirectionDecides) {
    EXPECT_EQ(verdict_of({gib, gib, false}, {gib / 2, gib, false}), Verdict::Mixed);
    EXPECT_DOUBLE_EQ(judge_node(node({gib, gib, false}, {gib / 2, gib, false})).share, 0.5);
    EXPECT_DOUBLE_EQ(judge_node(node({gib, gib, false}, {3 * gib, gib, false})).share, 0.25);
    // Acknowledgements of the other direction, or chatter, have no say.
    EXPECT_EQ(verdict_of({gib, 0, false}, {0, gib / 11, false}), Verdict::Used);
    EXPECT_DOUBLE_EQ(judge_node(node({gib, 0, false}, {0, gib / 11, false})).share, 1);
    EXPECT_EQ(verdict_of({70 * mib, 0, false}, {0, mib - 1, false}), Verdict::Used);
    EXPECT_EQ(verdict_of({0, 5 * mib, false}, {gib, 0, false}), Verdict::NotUsed);
}

TEST(NodeVerdict, WhatWasSentOverRdmaIsUsedThoughAllIsReceivedOverSockets) {
    EXPECT_EQ(verdict_of({gib, 0, false}, {0, gib, false}), Verdict::Mixed);
    EXPECT_EQ(verdict_of({500 * mib, 0, false}, {0, 60 * mib, false}), Verdict::Mixed);
}

TEST(NodeVerdict, GradesTheEvidence) {
    const auto used = node(gib, 0);
    auto shared = used;
    shared.exclusive = false;
    EXPECT_EQ(judge_node(with_queue_pairs(used, 4)).grade, Grade::A);
    EXPECT_EQ(judge_node(used).grade, Grade::B);
    EXPECT_EQ(judge_node(with_queue_pairs(used, 0)).grade, Grade::B);
    EXPECT_EQ(judge_node(with_queue_pairs(shared, 4)).grade, Grade::C);
    EXPECT_EQ(judge_node(with_queue_pairs(used, 4, {"the kernel's nvme_rdma"})).grade, Grade::C);
    EXPECT_EQ(judge_node(shared).grade, Grade::D);
    EXPECT_EQ(judge_node(with_queue_pairs(shared, 0)).grade, Grade::D);
    auto estimate = with_queue_pairs(used, 4);
    estimate.traffic.estimate = true;
    EXPECT_EQ(judge_node(estimate).grade, Grade::D);
    EXPECT_EQ(judge_node(estimate).verdict, Verdict::Used);
    EXPECT_EQ(judge_node(without_source(with_queue_pairs(used, 4))).grade, Grade::D);
    auto silent = with_queue_pairs(used, 4);
    silent.problem = "its counters could not be read in 2 s";
    EXPECT_EQ(judge_node(silent).grade, Grade::D);
    EXPECT_EQ(judge_node(silent).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_node(silent).why, Texts{silent.problem});
}

NodeEvidence shared(std::uint64_t rdma, std::uint64_t sockets) {
    auto evidence = node(rdma, sockets);
    evidence.exclusive = false;
    return evidence;
}

TEST(NodeVerdict, OnASharedNodeWithoutQueuePairsNothingIsCertain) {
    const Texts unclear = {"1.07 GB over RDMA and 0 B over sockets may include those of another step on the node"};
    EXPECT_EQ(judge_node(shared(gib, 0)).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_node(shared(gib, 0)).why, unclear);
    EXPECT_EQ(judge_node(shared(0, gib)).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_node(shared(gib, gib)).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_node(shared(mib, mib)).verdict, Verdict::Idle);
}

TEST(NodeVerdict, OnASharedNodeQueuePairsTellWhoUsedRdma) {
    const auto own = judge_node(with_queue_pairs(shared(gib, 0), 2, {"job 12 step 0"}));
    EXPECT_EQ(own.verdict, Verdict::Used);
    EXPECT_EQ(own.notes, Texts{"the bytes may include those of job 12 step 0"});
    EXPECT_EQ(judge_node(with_queue_pairs(shared(gib, gib), 2)).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_node(with_queue_pairs(shared(0, gib), 2)).verdict, Verdict::Unknown);

    const auto none = judge_node(with_queue_pairs(shared(gib, gib), 0, {"job 12 step 0", "job 13 step 1"}));
    EXPECT_EQ(none.verdict, Verdict::NotUsed);
    EXPECT_EQ(none.rdma, Bytes{});
    EXPECT_EQ(none.share, 0);
    EXPECT_EQ(none.notes, (Texts{"the RDMA traffic was not this step's, which had no queue pair (job 12 step 0, "
                                 "job 13 step 1)",
                                 "the bytes over sockets may be those of job 12 step 0, job 13 step 1"}));
    EXPECT_EQ(judge_node(with_queue_pairs(shared(gib, mib), 0)).verdict, Verdict::Idle);
}

TEST(NodeVerdict, WithoutByteCountersTheLogsTell) {
    auto evidence = with_queue_pairs(without_source(node(0, gib)), 0);
    evidence.log = connections(0, 8, 0);
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used);
    evidence.log = connections(0, 6, 2);
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Mixed);
    EXPECT_EQ(judge_node(evidence).why, Texts{"2 of 8 connections over sockets"});
    evidence.log = connections(0, 0, 2);
    evidence.log->causes = {"a cause"};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    EXPECT_EQ(judge_node(evidence).why, (Texts{"2 connections over sockets, none over RDMA", "a cause"}));
}

TEST(NodeVerdict, WithoutByteCountersAndLogsThatTheStepHadNoQueuePairsTells) {
    const Texts why = {"no process of the step ever had a queue pair when checked"};
    for (const bool log : {false, true}) {
        auto evidence = with_queue_pairs(without_source(node(0, gib)), 0);
        if (log) {
            evidence.log.emplace(); // no line of NCCL's in it
        }
        EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed) << log;
        EXPECT_EQ(judge_node(evidence).why, why);
        EXPECT_TRUE(judge_node(evidence).notes.empty());
        evidence.exclusive = false;
        EXPECT_EQ(judge_node(evidence).notes, Texts{"the bytes over sockets may be those of another step"});
        evidence.traffic.sockets = {};
        EXPECT_EQ(judge_node(evidence).verdict, Verdict::Idle);
        EXPECT_TRUE(judge_node(evidence).why.empty());
    }
}

TEST(NodeVerdict, WithoutByteCountersAndWithoutMoreItIsUnknown) {
    auto evidence = without_source(node(0, gib));
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_node(evidence).why, Texts{"no port has byte counters: siw counts no bytes"});
    evidence.traffic.ports.push_back(evidence.traffic.ports.front()); // once
    EXPECT_EQ(judge_node(evidence).why, Texts{"no port has byte counters: siw counts no bytes"});
    EXPECT_EQ(judge_node(with_queue_pairs(evidence, 4)).verdict, Verdict::Unknown);
    evidence.traffic.ports.clear();
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    EXPECT_EQ(judge_node(evidence).why, Texts{"there is no RDMA device"});
    evidence.traffic.sockets = {mib, mib, false};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Idle);
    EXPECT_TRUE(judge_node(evidence).why.empty());
    evidence.log.emplace();
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);
}

TEST(NodeVerdict, SocketsAreNoFallbackWhereNvlinkConnectsTheNodes) {
    auto evidence = node(0, gib);
    evidence.log = connections(0, 0, 0);
    evidence.log->nodes = 2;
    evidence.log->nvlink = 8;
    for (const std::uint64_t sockets : {gib, mib}) {
        evidence.traffic.sockets = {sockets, sockets, false};
        EXPECT_EQ(judge_node(evidence).verdict, Verdict::Idle) << sockets;
        EXPECT_EQ(judge_node(evidence).why, Texts{"the GPUs are connected over NVLink: no network was needed"});
    }
    evidence.traffic.sockets = {gib, gib, false};
    evidence.log->unread = 1; // it may be of a connection over sockets
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    evidence.may_use_nvlink = true;
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);
    evidence.may_use_nvlink = false;
    evidence.log->unread = 0;
    evidence.log->sockets = 2; // to the nodes of another clique
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    evidence.log.reset();
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    evidence.may_use_nvlink = true;
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);
    ASSERT_EQ(judge_node(evidence).why.size(), 1U);
    EXPECT_EQ(judge_node(evidence).why[0].find("NVLink may have carried NCCL's bytes between the nodes"), 0U);
    evidence.log = connections(0, 0, 2); // which tells
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    evidence.log = connections(0, 0, 0); // which does not
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);
    evidence.log = connections(0, 0, 0);
    evidence.log->nodes = 1; // so that it has nothing to do with NVLink between nodes
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    evidence.log.reset();
    evidence.traffic.ports.clear();
    evidence.traffic.has_source = false;
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown) << "there is no RDMA device";
}

TEST(NodeVerdict, WhereNvlinkMayConnectTheNodesThatNcclChoseSocketsSaysNothing) {
    auto evidence = node(0, gib);
    evidence.log = connections(0, 0, 0);
    evidence.log->nodes = 2;
    evidence.log->networks = {"Socket"};
    for (const bool counted : {true, false}) {
        evidence.may_use_nvlink = false;
        EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed) << counted;
        evidence.may_use_nvlink = true;
        EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown) << counted;
        evidence.log->sockets = 2; // which it used
        EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed) << counted;
        evidence.log->sockets = 0;
        evidence = without_source(evidence);
    }
}

TEST(NodeVerdict, WhereNvlinkMayHaveCarriedThemItSaysWhatIsKnownAndWhatIsMissing) {
    auto evidence = node(0, gib);
    evidence.may_use_nvlink = true;
    evidence.causes = {"NCCL_IB_DISABLE=1 is set: NCCL uses sockets"};
    const auto why = [&evidence](std::string_view end) {
        const auto verdict = judge_node(evidence);
        EXPECT_EQ(verdict.why.size(), 2U);
        EXPECT_TRUE(verdict.why.front().ends_with(end)) << verdict.why.front();
        return verdict.why.back();
    };
    EXPECT_EQ(why(": verify=full tells"), evidence.causes.front());
    evidence.log = connections(0, 0, 0);
    evidence.log->info = false;
    EXPECT_EQ(why(": the log has warnings of NCCL alone: it needs NCCL_DEBUG=INFO"), evidence.causes.front());
    evidence.log->info = true;
    evidence.log->nodes = 2;
    evidence.log->nvlink = 8;
    evidence.log->unread = 1;
    evidence.log->causes = {"a cause"};
    evidence.causes.clear();
    EXPECT_EQ(why(": NCCL's log lacks connections"), "a cause");
}

TEST(NodeVerdict, TellsWhereNvlinkAloneMakesItUnknown) {
    auto evidence = node(0, gib);
    EXPECT_FALSE(judge_node(evidence).not_used_but_for_nvlink) << "it is NOT USED";
    evidence.may_use_nvlink = true;
    EXPECT_TRUE(judge_node(evidence).not_used_but_for_nvlink);
    const auto seen = evidence.traffic.sockets;
    EXPECT_FALSE(judge_node(evidence, {}, seen, false).not_used_but_for_nvlink) << "they may have gone elsewhere";
    evidence.traffic.ports.front().bytes.at_least = true;
    EXPECT_FALSE(judge_node(evidence).not_used_but_for_nvlink) << "a counter was reset";
    evidence.problem = "its counters could not be read in 2 s";
    EXPECT_FALSE(judge_node(evidence).not_used_but_for_nvlink) << "nothing is known";
}

TEST(NodeVerdict, WithoutByteCountersNvlinkMayHaveCarriedThemToo) {
    auto evidence = with_queue_pairs(without_source(node(0, gib)), 0);
    evidence.log.emplace(); // no line of NCCL's in it
    ASSERT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    evidence.may_use_nvlink = true;
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);
    evidence.log = connections(0, 0, 2); // which tells
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
}

TEST(NodeVerdict, WhereOnlyNvlinkConnectsTheNodesRdmaIsThatOfStorage) {
    auto evidence = node(gib, gib);
    ASSERT_EQ(judge_node(evidence).verdict, Verdict::Mixed);
    evidence.log = connections(0, 0, 0);
    evidence.log->nodes = 2;
    evidence.log->nvlink = 8;
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Idle);
    EXPECT_EQ(judge_node(evidence).why, Texts{"the GPUs are connected over NVLink: no network was needed"});
    evidence.traffic.sockets = {mib, mib, false};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used) << "it works, whoever used it";
    evidence.traffic.sockets = {gib, gib, false};
    evidence.log->unread = 1;
    evidence.may_use_nvlink = true;
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Mixed);
}

TEST(StepVerdict, FilesThatNoOtherNodeHasSentAreIdleAlsoWhereNvlinkMayConnectNodes) {
    auto one = node({0, 0, false}, {0, 10 * gib, false}, "n1");
    auto other = node({0, 0, false}, {0, 10 * gib, false}, "n2");
    one.may_use_nvlink = other.may_use_nvlink = true;
    EXPECT_EQ(judge_step({one, other}, {}).verdict, Verdict::Idle);
}

TEST(NodeVerdict, LostCountersMakeNotUsedUncertain) {
    auto evidence = node(0, gib);
    auto& lost = evidence.traffic.ports.front();
    lost.bytes.at_least = true;
    lost.problem = "its counters were reset";
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);
    EXPECT_EQ(judge_node(evidence).why, Texts{"the bytes of some ports could not be read"});
    EXPECT_EQ(judge_node(evidence).notes, Texts{"mlx5_0:1: its counters were reset"});
    lost.expected = false; // NCCL had nothing to do with it
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::NotUsed);
    lost = {"mlx5_0:1", ByteSource::None, {}, true, "no counters/"};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Unknown);

    evidence = node(gib, 0);
    evidence.traffic.ports.front().bytes.at_least = true;
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used);
}

TEST(NodeVerdict, NotesWhatAnInterfaceLost) {
    auto evidence = node(gib, 0);
    evidence.traffic.netdevs.front().problem = "its counters were reset";
    EXPECT_EQ(judge_node(evidence).notes, Texts{"eth0: its counters were reset"});
}

NodeEvidence four_ports(std::uint64_t last, unsigned gpus) {
    auto evidence = node(3 * gib + last, 0);
    evidence.gpus = gpus;
    evidence.rank_per_gpu = true;
    evidence.traffic.ports = {port("mlx5_0:1", gib), port("mlx5_1:1", gib), port("mlx5_2:1", gib),
                              port("mlx5_3:1", last)};
    return evidence;
}

TEST(NodeVerdict, AnIdlePortMakesItMixedWhereEachGpuShouldHaveOne) {
    const Texts idle = {"mlx5_3:1 stayed idle"};
    for (const unsigned gpus : {4U, 8U}) {
        for (const std::uint64_t bytes : {std::uint64_t{0}, mib - 1, gib / 100}) {
            const auto verdict = judge_node(four_ports(bytes, gpus));
            EXPECT_EQ(verdict.verdict, Verdict::Mixed) << bytes;
            EXPECT_EQ(verdict.why, idle);
        }
    }
    for (const unsigned gpus : {0U, 1U, 3U}) { // none knows which ports they take
        const auto verdict = judge_node(four_ports(0, gpus));
        EXPECT_EQ(verdict.verdict, Verdict::Used);
        EXPECT_TRUE(verdict.why.empty());
        EXPECT_EQ(verdict.notes, idle);
    }
    EXPECT_EQ(judge_node(four_ports(gib / 100 + 1, 4)).verdict, Verdict::Used);
    auto launcher = four_ports(0, 8); // which may start fewer ranks than there are GPUs
    launcher.rank_per_gpu = false;
    EXPECT_EQ(judge_node(launcher).verdict, Verdict::Used);
    EXPECT_EQ(judge_node(launcher).notes, idle);
}

TEST(NodeVerdict, APortThatWasLostOrIsNotCountedIsNotCalledIdle) {
    auto evidence = four_ports(0, 4);
    auto& last = evidence.traffic.ports.back();
    last.bytes.at_least = true;
    last.problem = "could not be read for 12 s";
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used);
    EXPECT_EQ(judge_node(evidence).notes, Texts{"mlx5_3:1: could not be read for 12 s"});
    last = {"mlx5_3:1", ByteSource::None, {}, true, {}};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used);
    EXPECT_TRUE(judge_node(evidence).notes.empty());
}

TEST(NodeVerdict, AnUnbalancedPortIsNoted) {
    for (const unsigned gpus : {1U, 4U}) {
        const auto verdict = judge_node(four_ports(gib / 4, gpus));
        EXPECT_EQ(verdict.verdict, Verdict::Used);
        EXPECT_EQ(verdict.notes, Texts{"mlx5_3:1 moved 25 % of the median of its ports: is a rank far from "
                                       "its HCA? (rdma-nccl topo)"});
    }
    EXPECT_TRUE(judge_node(four_ports(gib / 2, 4)).notes.empty());
    EXPECT_FALSE(judge_node(four_ports(gib / 2 - mib, 4)).notes.empty());
}

TEST(NodeVerdict, IdlePortsDoNotCountForTheMiddleOne) {
    auto evidence = node(2 * gib, 0);
    evidence.traffic.ports = {port("a:1", 0), port("b:1", 0), port("c:1", 0), port("d:1", gib), port("e:1", gib / 4)};
    const auto notes = judge_node(evidence).notes;
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_EQ(notes.front().substr(0, 14), "e:1 moved 25 %");
    EXPECT_EQ(notes.back(), "a:1, b:1, c:1 stayed idle");
    // 1 MiB is not idle, where that is more than 1 % of the others.
    evidence.traffic.ports = {port("a:1", 64 * mib), port("b:1", 64 * mib), port("c:1", mib)};
    EXPECT_EQ(judge_node(evidence).notes.at(0).substr(0, 9), "c:1 moved");
}

TEST(NodeVerdict, APortThatNcclWasNotToldToUseIsNoted) {
    auto evidence = node(2 * gib, 0);
    evidence.gpus = 1;
    evidence.traffic.ports = {port("mlx5_0:1", gib), port("mlx5_9:1", gib, false)};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used);
    EXPECT_EQ(judge_node(evidence).notes, Texts{"mlx5_9:1 moved 1.07 GB though NCCL was not told to use it"});
    evidence.traffic.ports[1] = port("mlx5_9:1", 64 * mib - 1, false);
    EXPECT_TRUE(judge_node(evidence).notes.empty());
    // It did all: the port that NCCL was told to use did nothing.
    evidence.traffic.ports = {port("mlx5_0:1", 0), port("mlx5_9:1", gib, false)};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used);
    EXPECT_EQ(judge_node(evidence).notes.back(), "mlx5_0:1 stayed idle");
}

TEST(NodeVerdict, NamesAFewCausesOfWhatWentWrong) {
    auto evidence = node(0, gib);
    evidence.log = connections(0, 0, 2);
    evidence.log->causes = {"one", "two", "one"};
    evidence.causes = {"two", "three", "four"};
    EXPECT_EQ(judge_node(evidence).why, (Texts{"one", "two", "three"}));
    evidence.log.reset();
    EXPECT_EQ(judge_node(evidence).why, (Texts{"two", "three", "four"}));
    evidence.traffic.rdma = {gib, gib, false};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Mixed);
    EXPECT_EQ(judge_node(evidence).why.size(), 3U);
    evidence.traffic.sockets = {};
    EXPECT_EQ(judge_node(evidence).verdict, Verdict::Used);
    EXPECT_TRUE(judge_node(evidence).why.empty());
}

TEST(NodeVerdict, GpuDirectIsOnWithProofOnly) {
    auto evidence = node(gib, 0);
    EXPECT_EQ(judge_node(evidence).gpu_direct, GpuDirect::Unknown);
    evidence.gpu_direct_possible = true;
    EXPECT_EQ(judge_node(evidence).gpu_direct, GpuDirect::Possible);
    evidence.gpu_direct_possible = false;
    EXPECT_EQ(judge_node(evidence).gpu_direct, GpuDirect::Off);
    evidence.log = connections(0, 8, 0);
    EXPECT_EQ(judge_node(evidence).gpu_direct, GpuDirect::On);
    evidence.log = connections(2, 6, 0);
    EXPECT_EQ(judge_node(evidence).gpu_direct, GpuDirect::On);
    EXPECT_EQ(judge_node(evidence).notes, Texts{"2 of 8 connections over RDMA are without GPUDirect"});
    evidence.gpu_direct_possible = true;
    evidence.log = connections(8, 0, 0);
    EXPECT_EQ(judge_node(evidence).gpu_direct, GpuDirect::Off);
    evidence.log = connections(0, 0, 8); // over sockets: they tell nothing of GPUDirect
    EXPECT_EQ(judge_node(evidence).gpu_direct, GpuDirect::Possible);
}

TEST(StepVerdict, IsThatOfItsNodes) {
    const auto used = node(gib, 0, "n01");
    const auto not_used = node(0, gib, "n02");
    const auto mixed = node(gib, gib, "n03");
    const auto idle = node(0, 0, "n04");
    auto unknown = node(gib, 0, "n05");
    unknown.problem = "no answer";
    struct Row {
        std::vector<NodeEvidence> nodes;
        Verdict verdict;
    };
    for (const auto& row : std::initializer_list<Row>{
             {{}, Verdict::Unknown},
             {{used}, Verdict::Used},
             {{used, used}, Verdict::Used},
             {{used, used, idle}, Verdict::Used},
             {{not_used, not_used, idle}, Verdict::NotUsed},
             {{idle, idle}, Verdict::Idle},
             {{mixed, mixed}, Verdict::Mixed},
             {{mixed, mixed, unknown}, Verdict::Unknown}, // what the others' bytes were is not known without its own
             {{used, used, not_used, not_used}, Verdict::Mixed},
             {{used, used, unknown}, Verdict::Unknown},
             {{not_used, not_used, unknown}, Verdict::Unknown},
             {{mixed, mixed, used}, Verdict::Mixed},
             {{idle, unknown}, Verdict::Unknown},
         }) {
        EXPECT_EQ(judge_step(row.nodes, {}).verdict, row.verdict) << row.nodes.size();
    }
}

TEST(StepVerdict, OfNothingSaysNothing) {
    const auto none = judge_step({}, {"n1", "n2"});
    EXPECT_EQ(none.verdict, Verdict::Unknown);
    EXPECT_EQ(none.grade, Grade::D);
    EXPECT_EQ(none.gpu_direct, GpuDirect::Unknown);
    EXPECT_EQ(none.share, 0);
    EXPECT_EQ(none.why, Texts{"no report from n[1-2]"});
    EXPECT_EQ(judge_step({node(0, 0), node(0, 0)}, {}).gpu_direct, GpuDirect::Unknown);
}

TEST(StepVerdict, SumsUpAndTakesTheWorstGradeShareAndGpuDirect) {
    auto good = with_queue_pairs(node(gib, 0, "n1"), 4);
    good.log = connections(0, 8, 0);
    auto other = node({gib, gib, true}, {gib / 20, gib / 20, false}, "n2");
    other.gpus = 1;
    other.gpu_direct_possible = true;
    good.traffic.sockets = {gib / 50, gib / 20, false};
    const auto step = judge_step({good, other, with_queue_pairs(node(0, 0, "n3"), 1)}, {});
    good.traffic.sockets = {};
    EXPECT_EQ(step.verdict, Verdict::Used);
    EXPECT_EQ(step.grade, Grade::B);
    EXPECT_EQ(step.gpu_direct, GpuDirect::Possible);
    EXPECT_EQ(step.rdma, (Bytes{2 * gib, 2 * gib, true}));
    EXPECT_DOUBLE_EQ(judge_step({good, good}, {}).share, 1);
    EXPECT_NEAR(step.share, 20.0 / 21, 1e-6);
    EXPECT_EQ(judge_step({good, good}, {}).grade, Grade::A);
    EXPECT_EQ(judge_step({good, good}, {}).gpu_direct, GpuDirect::On);
}

TEST(StepVerdict, IsBestWhereNcclsOwnCountAgrees) {
    auto one = with_queue_pairs(node(gib, 0, "n1"), 4);
    const auto grade = [&](std::uint64_t sent) {
        one.communicators = {{1, "tp", 2, 1, sent / 4, 0, 0, {}, {}}, {2, "dp", 2, 1, sent / 4 * 3, 0, 0, {}, {}}};
        return judge_step({one, one}, {}).grade;
    };
    EXPECT_EQ(grade(gib), Grade::Best);
    EXPECT_EQ(name_of(grade(gib - gib / 25)), "A+") << "headers";
    EXPECT_EQ(grade(gib - gib / 16), Grade::A) << "others' bytes, or PXN";
    EXPECT_EQ(grade(gib + gib / 16), Grade::A);
    EXPECT_EQ(grade(0), Grade::A);
    one.qps = {};
    EXPECT_EQ(grade(gib), Grade::B);
}

TEST(StepVerdict, SaysASentenceOnceAndOfWhom) {
    std::vector<NodeEvidence> nodes;
    for (const auto* const name : {"n1", "n2", "n3"}) {
        nodes.push_back(node(0, gib, name));
        nodes.back().causes = {"all say this"};
    }
    nodes[0].causes.emplace_back("two say this");
    nodes[2].causes.emplace_back("two say this");
    EXPECT_EQ(judge_step(nodes, {}).why, (Texts{"all say this", "n[1,3]: two say this"}));
}

TEST(StepVerdict, NamesTheNodesThatDidNotUseRdma) {
    const auto step = judge_step({node(gib, 0, "n1"), node(gib, 0, "n2"), node(0, gib, "n3"), node(0, gib, "n4")}, {});
    EXPECT_EQ(step.verdict, Verdict::Mixed);
    const std::string unknown = "cause unknown: run with verify=full to find it in NCCL's logs";
    EXPECT_EQ(step.why, (Texts{"not used on n[3-4]", "n[3-4]: " + unknown}));
    EXPECT_EQ(judge_step({node(0, gib, "n3"), node(0, gib, "n4")}, {}).why, Texts{unknown});
}

TEST(StepVerdict, NamesSilentNodes) {
    const auto step = judge_step({node(gib, 0, "n1")}, {"n3", "n2"});
    EXPECT_EQ(step.verdict, Verdict::Used);
    EXPECT_EQ(step.unresponsive, (Texts{"n3", "n2"}));
    EXPECT_EQ(step.why, Texts{"no report from n[2-3]"});
}

TEST(StepVerdict, NotesAPortThatWentDown) {
    const auto good = with_queue_pairs(node(gib, 0, "n07"), 4);
    const auto step = judge_step({with_link_downed(good, 3, 5), with_queue_pairs(node(gib, 0, "n08"), 4)}, {});
    const std::string remedy = " during the step: look at its cable, transceiver and switch port";
    EXPECT_EQ(step.lost_links, "mlx5_0:1 of n07 went down 2 times" + remedy);
    EXPECT_EQ(step.nodes[0].notes, Texts{"mlx5_0:1 went down 2 times" + remedy});
    EXPECT_TRUE(step.nodes[1].notes.empty());
    EXPECT_EQ(step.verdict, Verdict::Used);
    EXPECT_EQ(step.grade, Grade::A);
    EXPECT_TRUE(step.why.empty());
    EXPECT_EQ(judge_step({with_link_downed(good, 254, 255)}, {}).lost_links,
              "mlx5_0:1 of n07 went down 1 time or more" + remedy);
}

TEST(StepVerdict, NotesAnInterfaceThatLostItsCarrier) {
    const auto step = judge_step({with_link_downed(node(gib, 0, "n07"), 2, 6, "eth1")}, {});
    const std::string remedy =
        " during the step: look at its cable, transceiver and switch port, unless its MTU was changed";
    EXPECT_EQ(step.lost_links, "interface eth1 of mlx5_0:1 of n07 lost its carrier 2 times" + remedy);
    EXPECT_EQ(step.nodes[0].notes, Texts{"interface eth1 of mlx5_0:1 lost its carrier 2 times" + remedy});
    EXPECT_EQ(step.verdict, Verdict::Used);
    EXPECT_TRUE(step.why.empty());
}

TEST(StepVerdict, EachLossAndEachReturnOfACarrierIsAChange) {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ((LinkDowned{2, 2, "eth1"}.times()), 0);
    EXPECT_EQ((LinkDowned{2, 3, "eth1"}.times()), 1) << "it has not come back";
    EXPECT_EQ((LinkDowned{2, 4, "eth1"}.times()), 1);
    EXPECT_EQ((LinkDowned{2, 5, "eth1"}.times()), 2);
    EXPECT_EQ((LinkDowned{0, most, "eth1"}.times()), most / 2 + 1);
    EXPECT_EQ((LinkDowned{300, 302, "eth1"}.times()), 1) << "it does not stop at 255";
    EXPECT_FALSE((LinkDowned{300, 302, "eth1"}.is_full()));
    EXPECT_EQ((LinkDowned{4, 2, "eth1"}.times()), std::nullopt) << "it is another interface";
}

TEST(StepVerdict, SaysNothingOfALinkOfWhichNothingIsKnown) {
    struct Row {
        std::uint64_t before, after;
    };
    for (const auto& row : std::initializer_list<Row>{{0, 0}, {7, 7}, {255, 255}, {5, 3}, {255, 3}, {300, 301}}) {
        const auto step = judge_step({with_link_downed(node(gib, 0), row.before, row.after)}, {});
        EXPECT_EQ(step.lost_links, "") << row.before;
        EXPECT_TRUE(step.nodes[0].notes.empty()) << row.before;
    }
    EXPECT_EQ(judge_step({node(gib, 0)}, {}).lost_links, "");
}

TEST(StepVerdict, NamesAllPortsThatWentDownInASentenceOfTheirKindTheWorstFirst) {
    const auto down = [](const char* name, std::uint64_t times) {
        return with_link_downed(node(gib, 0, name), 0, times);
    };
    auto two = down("n3", 2);
    two.traffic.ports.push_back(port("mlx5_1:1", gib));
    two.traffic.ports.back().link_downed = LinkDowned{9, 10};
    EXPECT_EQ(judge_step({down("n1", 1), node(gib, 0, "n2"), two, down("n4", 12)}, {}).lost_links,
              "mlx5_0:1 of n4 went down 12 times during the step: look at its cable, transceiver and switch port "
              "(likewise mlx5_0:1 of n3: 2 times, mlx5_0:1 of n1: 1 time, mlx5_1:1 of n3: 1 time)");
    const auto carrier = [](const char* name, std::uint64_t changes) {
        return with_link_downed(node(gib, 0, name), 0, changes, "eth1");
    };
    EXPECT_EQ(
        judge_step({carrier("n1", 2), down("n2", 1), carrier("n3", 6), down("n4", 2)}, {}).lost_links,
        "interface eth1 of mlx5_0:1 of n3 lost its carrier 3 times during the step: look at its cable, transceiver "
        "and switch port, unless its MTU was changed (likewise interface eth1 of mlx5_0:1 of n1: 1 time); "
        "mlx5_0:1 of n4 went down 2 times during the step: look at its cable, transceiver and switch port "
        "(likewise mlx5_0:1 of n2: 1 time)");
    const auto many = judge_step(std::vector<NodeEvidence>(1000, down("n1", 1)), {}).lost_links;
    EXPECT_TRUE(many.ends_with("and 991 more)")) << many;
}

TEST(StepVerdict, NotesAGidOfNcclThatHasChanged) {
    const auto good = with_queue_pairs(node(gib, 0, "n07"), 4);
    const auto step =
        judge_step({with_gid_change(good, "10.1.0.7", "fe80::1"), with_queue_pairs(node(gib, 0, "n08"), 4)}, {});
    const std::string remedy = ": keep the interface's addresses while jobs run";
    const std::string what = "was 10.1.0.7 and is now fe80::1" + remedy;
    EXPECT_EQ(step.changed_gids, "GID 3 of mlx5_0:1 of n07 " + what);
    EXPECT_EQ(step.nodes[0].notes, Texts{"GID 3 of mlx5_0:1 " + what});
    EXPECT_TRUE(step.nodes[1].notes.empty());
    EXPECT_EQ(step.verdict, Verdict::Used);
    EXPECT_EQ(step.grade, Grade::A);
    EXPECT_TRUE(step.why.empty());
    EXPECT_EQ(judge_step({good}, {}).changed_gids, "");
    EXPECT_EQ(judge_step({with_gid_change(good, "10.1.0.7", "::")}, {}).changed_gids,
              "GID 3 of mlx5_0:1 of n07 was 10.1.0.7 and is now empty" + remedy);
    EXPECT_EQ(judge_step({with_gid_change(good, "10.1.0.7", "::", 5)}, {}).changed_gids,
              "GID 3 of mlx5_0:1 of n07 was 10.1.0.7 (which is at index 5 now) and is now empty" + remedy);
}

TEST(StepVerdict, NamesAllGidsThatHaveChangedInOneSentence) {
    const auto changed = [](const char* name, const char* gid) {
        return with_gid_change(node(gib, 0, name), gid, "::");
    };
    auto two = changed("n3", "10.1.0.3");
    two.traffic.ports.push_back(port("mlx5_1:1", gib));
    two.traffic.ports.back().gid_change = GidChange{1, IpAddress::parse("fe80::1").value(), {}};
    const auto step = judge_step({changed("n1", "10.1.0.1"), node(gib, 0, "n2"), two}, {});
    const std::string remedy = " and is now empty: keep the interface's addresses while jobs run";
    EXPECT_EQ(step.changed_gids, "GID 3 of mlx5_0:1 of n1 was 10.1.0.1" + remedy +
                                     " (likewise GID 3 of mlx5_0:1 of n3, GID 1 of mlx5_1:1 of n3)");
    EXPECT_EQ(step.nodes[2].notes,
              (Texts{"GID 3 of mlx5_0:1 was 10.1.0.3" + remedy, "GID 1 of mlx5_1:1 was fe80::1" + remedy}));
    const auto many = judge_step(std::vector<NodeEvidence>(1000, changed("n1", "10.1.0.1")), {}).changed_gids;
    EXPECT_TRUE(many.ends_with("and 991 more)")) << many;
}

TEST(StepVerdict, BytesThatNoOtherNodeMovedWereNotBetweenTheNodes) {
    // n1 has also read 10 GiB from a storage over sockets.
    const auto reader = node({gib, gib, false}, {2 * mib, 10 * gib, false}, "n1");
    const auto peer = node(gib, 2 * mib, "n2");
    const auto step = judge_step({reader, peer}, {});
    EXPECT_EQ(step.verdict, Verdict::Used);
    EXPECT_EQ(step.nodes[0].sockets.tx, 2 * mib);
    EXPECT_EQ(step.nodes[0].sockets.rx, static_cast<std::uint64_t>(1.1 * static_cast<double>(2 * mib)));
    EXPECT_EQ(step.nodes[0].elsewhere.tx, 0U);
    EXPECT_EQ(step.nodes[0].elsewhere.rx + step.nodes[0].sockets.rx, 10 * gib);
    EXPECT_EQ(step.nodes[0].evidence.traffic.sockets.rx, 10 * gib);
    EXPECT_EQ(step.nodes[1].elsewhere, Bytes{});

    // Both do: what one has read is not what the other has sent.
    const auto both = judge_step({reader, node({gib, gib, false}, {2 * mib, 10 * gib, false}, "n2")}, {});
    EXPECT_EQ(both.verdict, Verdict::Used);

    // What a node has received itself is no proof of what it has sent.
    const auto copies = judge_step({node({gib, gib, false}, {10 * gib, 10 * gib, false}, "n1"), peer}, {});
    EXPECT_EQ(copies.verdict, Verdict::Used);
    EXPECT_LT(copies.nodes[0].sockets.most(), 3 * mib);

    // Storage over RDMA does not make sockets between the nodes good.
    const auto storage = judge_step({node({0, 10 * gib, false}, {gib, gib, false}, "n1"), node(0, gib, "n2")}, {});
    EXPECT_EQ(storage.verdict, Verdict::NotUsed);
    EXPECT_EQ(storage.nodes[0].rdma, Bytes{});
}

TEST(StepVerdict, TheBoundAllowsForHeadersCountedDifferently) {
    const auto step = judge_step({node(gib, 0, "n1"), node(gib + gib / 11, 0, "n2")}, {});
    EXPECT_EQ(step.nodes[1].rdma.tx, gib + gib / 11);
}

TEST(StepVerdict, WithoutAllBytesOfAllNodesThereIsNoBound) {
    // It receives nothing over RDMA, so that its sockets are no files.
    const auto reader = node({gib, 0, false}, {2 * mib, 10 * gib, false}, "n1");
    const auto peer = node(gib, 2 * mib, "n2");
    EXPECT_EQ(judge_step({reader}, {}).nodes[0].sockets.rx, 10 * gib);
    EXPECT_EQ(judge_step({reader, peer}, {"n3"}).nodes[0].sockets.rx, 10 * gib);
    auto lost = peer;
    lost.traffic.sockets.at_least = true;
    EXPECT_EQ(judge_step({reader, lost}, {}).nodes[0].sockets.rx, 10 * gib);
    auto broken = peer;
    broken.problem = "no answer";
    EXPECT_EQ(judge_step({reader, broken}, {}).nodes[0].sockets.rx, 10 * gib);
    // RDMA's bytes, where another node's cannot be counted.
    const auto step = judge_step({node(gib, 0, "n1"), without_source(node(0, 0, "n2"))}, {});
    EXPECT_EQ(step.nodes[0].rdma.rx, gib);
}

TEST(StepVerdict, OfAThousandNodesWithAWordOfTheirOwnEach) {
    std::vector<NodeEvidence> nodes;
    for (unsigned i = 0; i < 1000; ++i) {
        nodes.push_back(node(0, gib, "n" + std::to_string(i)));
        for (unsigned k = 0; k < 3; ++k) {
            nodes.back().causes.push_back("cause " + std::to_string(3 * i + k));
        }
    }
    const auto step = judge_step(std::move(nodes), {});
    const auto line = verdict_line(step);
    const auto table = verdict_table(step);
    const auto json = verdict_json(step, 1, 0);
    EXPECT_EQ(step.verdict, Verdict::NotUsed);
    EXPECT_EQ(step.why.size(), 3000U);
    EXPECT_LT(line.size(), 500U);
    EXPECT_LT(table.size(), 70U);
    EXPECT_NE(table.back().find("and 992 more nodes: n["), std::string::npos) << table.back();
    EXPECT_NE(json.find("cause 2999"), std::string::npos);
}

} // namespace
} // namespace rdma_nccl
