// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/summary.h"

#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/flight_recorder/variables.h"
#include "tests/unit/tree.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace rdma_nccl::flight_recorder {
namespace {

/// The dumps of four ranks that tests/data/flight_recorder/make-dumps has written.
std::vector<Dump> dumps_of(const std::string& name) {
    std::vector<std::string> problems;
    auto dumps = read_dumps("tests/data/flight_recorder/" + name, 0, 4, problems);
    EXPECT_EQ(problems, std::vector<std::string>());
    EXPECT_EQ(dumps.size(), 4U);
    return dumps;
}

std::vector<std::string> lines_of(const std::vector<Dump>& dumps) {
    std::vector<std::string> lines;
    for (const auto& stuck : find_stuck(dumps)) {
        append(lines, stuck_lines(stuck));
    }
    return lines;
}

using Lines = std::vector<std::string>;

/// A rank that has completed 9 of `enqueued` all_reduces in a group of `ranks`.
Dump dump_of(std::uint32_t rank, std::uint64_t enqueued, std::uint32_t ranks, CollectiveState state) {
    ProcessGroup group{"0", "undefined", ranks, {enqueued, enqueued, 9}, std::nullopt};
    if (enqueued > 9) {
        group.pending = Collective{10, "all_reduce", state, 8, "[8]", "Float"};
    }
    return {"2.10", rank, {group}};
}

TEST(Dump, OfARank) {
    auto dump = dumps_of("absent").at(2);
    EXPECT_EQ(dump.version, "2.4");
    EXPECT_EQ(dump.rank, 2U);
    ASSERT_EQ(dump.groups.size(), 2U);
    for (auto& group : dump.groups) {
        EXPECT_NE(std::exchange(group.members, 0), 0U);
    }
    EXPECT_EQ(dump.groups[0], (ProcessGroup{"0", "dp", 4, {4710, 4710, 4710}, std::nullopt}));
    EXPECT_EQ(
        dump.groups[1],
        (ProcessGroup{
            "9", "tp", 4, {1, 1, 0}, Collective{1, "all_reduce", CollectiveState::Started, 16, "[8, 2]", "Float"}}));
}

TEST(Dump, IsOneOfTheRecorders) {
    EXPECT_FALSE(parse_dump("\x80\x02}."));
    EXPECT_FALSE(parse_dump("no pickle"));
    const std::string other("\x80\x02}X\x07\0\0\0versionX\x01\0\0\0003s.", 23);
    EXPECT_EQ(parse_dump(other).error().message, "not a dump of PyTorch's flight recorder, version 2");
}

TEST(Dump, OnlyFromRegularFilesOfTheUsersDirectory) {
    test::Tree tree;
    tree.file("/own/nccl_trace_rank_1", "cut").link("/own/nccl_trace_rank_2", "nccl_trace_rank_1").link("/link", "own");
    ASSERT_EQ(::mkfifo(tree.at("/own/nccl_trace_rank_3").c_str(), 0600), 0);
    std::vector<std::string> problems;
    EXPECT_TRUE(read_dumps(tree.at("/own"), 0, 4, problems).empty());
    ASSERT_EQ(problems.size(), 1U) << joined(problems);
    EXPECT_TRUE(problems[0].ends_with("/own/nccl_trace_rank_1: opcode 0x63 at byte 0 cannot be read")) << problems[0];
    EXPECT_TRUE(read_dumps(tree.at("/link"), 0, 4, problems).empty());
    EXPECT_TRUE(read_dumps("", 0, 4, problems).empty());
    EXPECT_EQ(problems.size(), 1U);
}

TEST(Stuck, RanksThatWaitForEachOther) {
    const auto dumps = dumps_of("absent");
    EXPECT_EQ(lines_of(dumps),
              (Lines{"process group \"dp\" (4 ranks): all_reduce 4711: rank 2 has not entered it; 3 others wait",
                     "process group \"tp\" (4 ranks): all_reduce 1: ranks 0-1,3 have not entered it; 1 other waits"}));
    for (const auto& stuck : find_stuck(dumps)) {
        EXPECT_FALSE(stuck.is_cause) << "its culprits wait in the other group";
    }
}

TEST(Stuck, SendsAndReceivesAreNoCollectives) {
    EXPECT_EQ(lines_of(dumps_of("sends")), Lines{});
}

TEST(Stuck, GroupsOfOneNameAreApartIfTheirRanksAre) {
    std::vector dumps{dump_of(0, 12, 1, CollectiveState::Started), dump_of(1, 9, 1, CollectiveState::Started)};
    dumps[0].groups[0].members = 1;
    dumps[1].groups[0].members = 2;
    for (const auto& stuck : find_stuck(dumps)) {
        EXPECT_EQ(stuck.culprits, std::vector<std::uint32_t>());
    }
}

TEST(Stuck, TheCauseComesFirst) {
    std::vector dumps{dump_of(0, 10, 2, CollectiveState::Started), dump_of(1, 9, 2, CollectiveState::Started),
                      dump_of(2, 9, 2, CollectiveState::Started)};
    dumps[2].groups[0].name = "1";
    dumps[1].groups.push_back(dump_of(1, 10, 2, CollectiveState::Started).groups[0]);
    dumps[1].groups[1].name = "1";
    // Rank 0 waits for rank 1 in group 0, and that for rank 2 in group 1.
    const auto all = find_stuck(dumps);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].group, "1");
    EXPECT_TRUE(all[0].is_cause);
    EXPECT_EQ(all[0].culprits, std::vector{2U});
    EXPECT_FALSE(all[1].is_cause);
}

TEST(Stuck, ARankWithAnotherInput) {
    EXPECT_EQ(lines_of(dumps_of("sizes")), (Lines{"process group \"dp\" (4 ranks): all_reduce 4711:",
                                                  "  rank 3 calls all_reduce [1024] Half, the others [2048] Float"}));
}

TEST(Stuck, RanksThatCallOthers) {
    EXPECT_EQ(lines_of(dumps_of("order")), (Lines{"process group \"dp\" (4 ranks): broadcast 4711:",
                                                  "  rank 2 calls _all_gather_base, ranks 0-1 broadcast",
                                                  "  rank 3 calls all_to_all, ranks 0-1 broadcast"}));
}

TEST(Stuck, NobodyDiffers) {
    const std::vector started{dump_of(0, 10, 2, CollectiveState::Started), dump_of(1, 12, 2, CollectiveState::Started)};
    EXPECT_EQ(lines_of(started),
              (Lines{"process group \"0\" (2 ranks): all_reduce 10: 2 ranks have started it, with the same call"}));
    EXPECT_TRUE(lines_of({dump_of(0, 9, 2, CollectiveState::Completed)}).empty()) << "all have completed all";
    EXPECT_TRUE(lines_of({}).empty());
}

TEST(Stuck, OnABusyGpu) {
    const std::vector dumps{dump_of(0, 10, 3, CollectiveState::Started), dump_of(1, 10, 3, CollectiveState::Scheduled)};
    EXPECT_EQ(lines_of(dumps), (Lines{"process group \"0\" (3 ranks): all_reduce 10:",
                                      "  rank 1 has not started it: earlier work on the GPU is not done",
                                      "  1 of its 3 ranks left no dump"}));
}

TEST(Stuck, ManyRanksFitIntoALine) {
    std::vector<Dump> dumps;
    for (std::uint32_t rank = 0; rank < 4000; ++rank) {
        dumps.push_back(dump_of(rank, rank % 2 == 0 ? 9 : 10, 4000, CollectiveState::Started));
    }
    const auto lines = lines_of(dumps);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[1], "  ranks 0,2,4,6,8,10,12,14,16,18 ... (2000 ranks) have not entered it; 2000 others wait");
    EXPECT_LE(lines[0].size(), 96U);
}

/// A rank that has made `posted` sends to another one in a group, or receives from it; the last waits, or none.
Dump transfer_of(std::uint32_t rank, bool is_send, std::uint32_t peer, std::uint64_t posted, bool waits,
                 std::string sizes = "[8]", std::uint64_t elements = 8) {
    Transfers one{"pp", 4, 77, peer, is_send, false, true, posted, std::nullopt};
    if (waits) {
        one.pending = Collective{posted, "", CollectiveState::Started, elements, std::move(sizes), "Float"};
    }
    return {"2.10", rank, {}, {one}, true, "all_reduce of dp"};
}

/// As of a file whose oldest entries are lost.
Dump cut(Dump dump) {
    dump.is_complete = false;
    return dump;
}

TEST(StuckTransfer, BothEndsOfAPipelineOutOfADataLoader) {
    const auto dumps = dumps_of("pipeline");
    EXPECT_EQ(lines_of(dumps),
              (Lines{"process group \"pp\" (4 ranks): send 1->2:", "  rank 1 waits in the send, [8, 1024] BFloat16",
                     "  rank 2 has not posted the receive; its last call: send of pp",
                     "process group \"pp\" (4 ranks): send 2->3:", "  rank 3 waits in the receive, [8, 1024] BFloat16",
                     "  rank 2 has not posted the send; its last call: send of pp"}));
    for (const auto& stuck : find_stuck(dumps)) {
        EXPECT_EQ(stuck.culprits, std::vector{2U});
        EXPECT_EQ(stuck.sequence, 0U);
        EXPECT_TRUE(stuck.is_cause);
    }
}

TEST(StuckTransfer, WhatHasCompletedIsNone) {
    EXPECT_EQ(lines_of({transfer_of(0, true, 1, 5, false), transfer_of(1, false, 0, 5, false)}), Lines{});
    EXPECT_EQ(lines_of({transfer_of(0, true, 1, 5, true), transfer_of(1, false, 0, 5, false)}), Lines{})
        << "the receive has completed since the sender wrote its file";
}

TEST(StuckTransfer, ASmallSendCompletesBeforeItsReceive) {
    EXPECT_EQ(lines_of({transfer_of(0, true, 1, 5, false), transfer_of(1, false, 0, 5, true)}),
              (Lines{"process group \"pp\" (4 ranks): send 0->1:", "  rank 1 waits in the receive, [8] Float",
                     "  rank 0 has completed the send"}));
}

TEST(StuckTransfer, EndsThatDiffer) {
    const std::vector dumps{transfer_of(0, true, 1, 5, true), transfer_of(1, false, 0, 5, true, "[4]", 4)};
    EXPECT_EQ(lines_of(dumps),
              (Lines{"process group \"pp\" (4 ranks): send 0->1:", "  rank 0 waits in the send, [8] Float",
                     "  rank 1 waits in the receive, [4] Float", "  they differ in size or type"}));
    EXPECT_EQ(find_stuck(dumps)[0].culprits, (std::vector{0U, 1U}));
    EXPECT_EQ(lines_of({transfer_of(0, true, 1, 5, true), transfer_of(1, false, 0, 5, true, "[4, 2]", 8)}).size(), 3U)
        << "[8] and [4, 2] are the same to NCCL";
}

TEST(StuckTransfer, OtherOnesOfAPairDoNotDiffer) {
    const auto receives = transfer_of(1, false, 0, 5, true, "[4]", 4);
    for (const auto& dumps : {std::vector{transfer_of(0, true, 1, 6, true), receives},
                              std::vector{cut(transfer_of(0, true, 1, 5, true)), receives},
                              std::vector{transfer_of(0, true, 1, 5, true), cut(receives)}}) {
        EXPECT_EQ(lines_of(dumps).size(), 3U);
        EXPECT_EQ(find_stuck(dumps)[0].culprits, std::vector<std::uint32_t>());
    }
}

// The last receive in the file has completed: if the one for this send were posted, it would be there.
TEST(StuckTransfer, AReceiveIsMissedInACutFile) {
    const std::vector dumps{cut(transfer_of(0, true, 1, 5, true)), cut(transfer_of(1, false, 0, 9, false))};
    EXPECT_EQ(lines_of(dumps).at(2), "  rank 1 has not posted the receive; its last call: all_reduce of dp");
    EXPECT_EQ(find_stuck(dumps)[0].culprits, std::vector{1U});
}

// Not so a send, which may have completed already.
TEST(StuckTransfer, ASendMayHaveCompletedInACutFile) {
    const std::vector dumps{cut(transfer_of(0, true, 1, 5, false)), cut(transfer_of(1, false, 0, 9, true))};
    EXPECT_EQ(lines_of(dumps).at(2), "  rank 0 has no send to it open; its last call: all_reduce of dp");
    EXPECT_EQ(find_stuck(dumps)[0].culprits, std::vector<std::uint32_t>());
}

TEST(StuckTransfer, WhatAFileDoesNotTellIsNotSaid) {
    const Lines waits{"process group \"pp\" (4 ranks): send 0->1: rank 0 waits in the send, [8] Float"};
    const auto sends = transfer_of(0, true, 1, 5, true);
    EXPECT_EQ(lines_of({sends, cut({"2.10", 1, {}})}), waits) << "no entry is left";
    auto receives = transfer_of(1, false, 0, 4, false);
    receives.transfers[0].is_clear = false;
    EXPECT_EQ(lines_of({sends, receives}), waits) << "the states are not known";
    receives.transfers[0].is_clear = receives.transfers[0].is_batched = true;
    EXPECT_EQ(lines_of({sends, receives}), waits) << "it may be in another communicator";
    receives.transfers[0].pending = sends.transfers[0].pending;
    receives.transfers[0].is_clear = false;
    EXPECT_EQ(lines_of({receives}), Lines{}) << "nor does it wait";
    EXPECT_EQ(lines_of({sends}).at(2), "  rank 1 left no dump");
}

TEST(StuckTransfer, ARankThatHasCalledNothingOfIt) {
    EXPECT_EQ(lines_of({cut(transfer_of(0, true, 1, 5, true)), {"2.10", 1, {}, {}, true}}).at(2),
              "  rank 1 has not posted the receive");
}

// Rank 1 is missed in both groups, but waits for rank 2 itself.
TEST(StuckTransfer, TheCauseComesFirst) {
    std::vector dumps{transfer_of(0, true, 1, 5, true), transfer_of(1, true, 2, 5, true),
                      transfer_of(2, false, 1, 4, false), dump_of(3, 10, 2, CollectiveState::Started)};
    dumps[1].groups = dump_of(1, 9, 2, CollectiveState::Started).groups;
    const auto all = find_stuck(dumps);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].name, "send 1->2");
    EXPECT_TRUE(all[0].is_cause);
    EXPECT_FALSE(all[1].is_cause);
    EXPECT_FALSE(all[2].is_cause);
}

TEST(StuckTransfer, LongNamesFitIntoALine) {
    auto sends = transfer_of(1'073'741'824, true, 1'073'741'823, 1, true, std::string(40, '1'));
    auto receives = transfer_of(1'073'741'823, false, 1, 1, false);
    sends.transfers[0].group = receives.last_call = std::string(90, 'x');
    for (const auto& line : lines_of({sends, receives})) {
        EXPECT_LE(line.size(), 96U) << line;
    }
}

TEST(RecorderVariables, AreDefaults) {
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    EXPECT_EQ(recorder_variables({}, "/logs"), (Pairs{{"TORCH_NCCL_TRACE_BUFFER_SIZE", "2000"},
                                                      {"TORCH_FR_BUFFER_SIZE", "2000"},
                                                      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "1"},
                                                      {"TORCH_FR_DUMP_ON_TIMEOUT", "1"},
                                                      {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/logs/nccl_trace_rank_"},
                                                      {"TORCH_FR_DUMP_TEMP_FILE", "/logs/nccl_trace_rank_"}}));
}

TEST(RecorderVariables, TheUsersStay) {
    using Pairs = std::vector<std::pair<std::string, std::string>>;
    Environment environment;
    environment.set("TORCH_FR_BUFFER_SIZE", "9");
    environment.set("TORCH_NCCL_DUMP_ON_TIMEOUT", "0");
    environment.set("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/a/b");
    environment.set("TORCH_FR_DUMP_TEMP_FILE", "/c/d");
    EXPECT_EQ(recorder_variables(environment, "/logs"),
              (Pairs{{"TORCH_NCCL_TRACE_BUFFER_SIZE", "9"}, {"TORCH_FR_DUMP_ON_TIMEOUT", "0"}}));
}

} // namespace
} // namespace rdma_nccl::flight_recorder
