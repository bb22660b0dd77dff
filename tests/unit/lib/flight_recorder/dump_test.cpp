// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/dump.h"

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl::flight_recorder {
namespace {

using namespace std::string_literals;

// Parts of a pickle of protocol 2.
const std::string none = "N";

std::string text(std::string_view letters) {
    return std::string("X") + static_cast<char>(letters.size()) + "\0\0\0"s + std::string(letters);
}

std::string integer(int value) {
    return std::string("M") + static_cast<char>(value % 256) + static_cast<char>(value / 256);
}

std::string list(const std::vector<std::string>& items) {
    std::string all = "](";
    for (const auto& item : items) {
        all += item;
    }
    return all + "e";
}

std::string dictionary(const std::vector<std::pair<std::string_view, std::string>>& items) {
    std::string all = "}(";
    for (const auto& [key, value] : items) {
        all += text(key) + value;
    }
    return all + "u";
}

/// An all_reduce of process group "0", whose number is 3. `completed`: when that was discovered, or none.
std::string all_reduce(int sequence, std::string_view state, const std::string& completed = none) {
    return dictionary({{"pg_id", integer(3)},
                       {"process_group", list({text("0"), text("dp")})},
                       {"collective_seq_id", integer(sequence)},
                       {"profiling_name", text("nccl:all_reduce")},
                       {"state", text(state)},
                       {"time_discovered_completed_ns", completed}});
}

/// PyTorch's account of group 3.
std::string status(int enqueued, int started, int completed) {
    return dictionary({{"3", dictionary({{"last_enqueued_collective", integer(enqueued)},
                                         {"last_started_collective", integer(started)},
                                         {"last_completed_collective", integer(completed)}})}});
}

/// The only process group of a dump.
ProcessGroup group_of(const std::vector<std::string>& entries, const std::string& pg_status = dictionary({})) {
    const auto dump =
        parse_dump("\x80\x02" +
                   dictionary({{"version", text("2.10")}, {"entries", list(entries)}, {"pg_status", pg_status}}) + ".");
    EXPECT_TRUE(dump) << dump.error().message;
    return dump && dump->groups.size() == 1 ? dump->groups[0] : ProcessGroup{};
}

TEST(Dump, AStateOfCompletedNeedsNoTime) {
    const auto group = group_of({all_reduce(1, "completed"), all_reduce(2, "started")});
    EXPECT_EQ(group.progress, (Progress{2, 2, 1}));
    EXPECT_EQ(group.pending.value().sequence, 2U);
}

TEST(Dump, ATimeOfCompletionCountsWhateverTheState) {
    const auto group = group_of({all_reduce(1, "started", integer(7)), all_reduce(2, "scheduled")});
    EXPECT_EQ(group.progress, (Progress{2, 1, 1}));
    EXPECT_EQ(group.pending.value().sequence, 2U);
}

TEST(Dump, PyTorchsAccountCompletesTheEntries) {
    EXPECT_EQ(group_of({all_reduce(5, "completed")}, status(8, 7, 6)).progress, (Progress{8, 7, 6}));
}

// It is written when the watchdog looks, and the entries may have come further.
TEST(Dump, PyTorchsAccountTakesNothingFromTheEntries) {
    const auto group =
        group_of({all_reduce(5, "completed"), all_reduce(6, "started"), all_reduce(7, "scheduled")}, status(4, 3, 2));
    EXPECT_EQ(group.progress, (Progress{7, 6, 5}));
    EXPECT_EQ(group.pending.value().sequence, 6U);
}

/// A send or receive of process group "4", or the end of a batch. An entry of it has the launch's number alone.
std::string transfer(int launch, std::string_view name, std::string_view state, int old_launch = 0) {
    return dictionary({{"process_group", list({text("4"), text("pp")})},
                       {"collective_seq_id", integer(old_launch)},
                       {"p2p_seq_id", integer(launch)},
                       {"profiling_name", text(name)},
                       {"input_sizes", list({list({integer(8)})})},
                       {"input_dtypes", list({text("Float")})},
                       {"state", text(state)},
                       {"is_p2p", old_launch == 0 || name != "nccl:coalesced" ? "\x88" : "\x89"}});
}

std::string numbered(int record, const std::string& entry) {
    return entry.substr(0, entry.size() - 1) + text("record_id") + integer(record) + "u";
}

/// The file of rank 6, which is place 1 in a group of ranks 4, 6 and 9. Its records have the numbers from `first` on.
Dump dump_of(std::vector<std::string> entries, int first = 0) {
    for (auto& entry : entries) {
        entry = numbered(first++, entry);
    }
    const auto group =
        dictionary({{"name", text("4")}, {"desc", text("pp")}, {"ranks", text("[4, 6, 9]")}}); // as PyTorch writes it
    auto dump = parse_dump(
        "\x80\x02" +
            dictionary(
                {{"version", text("2.10")}, {"pg_config", dictionary({{"4", group}})}, {"entries", list(entries)}}) +
            ".",
        6);
    EXPECT_TRUE(dump) << dump.error().message;
    for (auto& one : dump->transfers) {
        EXPECT_NE(std::exchange(one.key, 0), 0U);
    }
    return dump.value_or(Dump{});
}

Collective pending(std::uint64_t sequence, std::string name, CollectiveState state = CollectiveState::Scheduled) {
    return {sequence, std::move(name), state, 8, "[8]", "Float"};
}

TEST(Transfers, AreCountedForEachRankAndWay) {
    const auto dump = dump_of({transfer(1, "nccl:send 1->2", "completed"), transfer(2, "nccl:recv 1<-0", "completed"),
                               transfer(3, "nccl:recv 1<-0", "scheduled"), transfer(4, "nccl:recv 1<-0", "scheduled")});
    EXPECT_EQ(dump.transfers, (std::vector<Transfers>{{"pp", 3, 0, 4, false, false, true, 3, pending(2, "receive")},
                                                      {"pp", 3, 0, 9, true, false, true, 1, std::nullopt}}));
    EXPECT_TRUE(dump.is_complete);
    EXPECT_EQ(dump.last_call, "recv of pp");
    EXPECT_TRUE(dump.groups.at(0).progress == Progress{}) << "they are no collectives";
}

TEST(Transfers, ABatchHasOneState) {
    for (const bool is_old : {false, true}) { // PyTorch counts batches in another number since 2.6
        const auto batched = [is_old](int launch, std::string_view name, std::string_view state) {
            return is_old ? transfer(0, name, state, launch) : transfer(launch, name, state);
        };
        const auto dump = dump_of({batched(1, "nccl:send 1->2", "scheduled"), batched(1, "nccl:recv 1<-0", "scheduled"),
                                   batched(1, "nccl:coalesced", "completed"), batched(2, "nccl:send 1->2", "scheduled"),
                                   batched(2, "nccl:coalesced", "started")});
        EXPECT_EQ(dump.transfers, (std::vector<Transfers>{{"pp", 3, 0, 4, false, true, true, 1, std::nullopt},
                                                          {"pp", 3, 0, 9, true, true, true, 2,
                                                           pending(2, "send", CollectiveState::Started)}}));
        EXPECT_TRUE(dump.groups.at(0).progress == Progress{}) << "the end of a batch is no collective";
        EXPECT_TRUE(dump.is_complete);
    }
}

TEST(Transfers, ABatchWithoutItsEndIsUnclear) {
    const auto dump = dump_of({transfer(1, "nccl:send 1->2", "scheduled"), transfer(1, "nccl:recv 1<-0", "scheduled")});
    ASSERT_EQ(dump.transfers.size(), 2U);
    EXPECT_FALSE(dump.transfers[0].is_clear);
    EXPECT_FALSE(dump.transfers[1].is_clear);
}

// They may have a communicator each, and then no common order.
TEST(Transfers, BatchedAndSingleOnesTogetherAreUnclear) {
    const auto dump = dump_of({transfer(1, "nccl:send 1->2", "completed"), transfer(2, "nccl:send 1->2", "scheduled"),
                               transfer(2, "nccl:coalesced", "started")});
    ASSERT_EQ(dump.transfers.size(), 1U);
    EXPECT_FALSE(dump.transfers[0].is_clear);
}

TEST(Transfers, OfARankThatIsNotInTheGroupAtThatPlaceAreUnclear) {
    for (const auto* const name : {"nccl:send 0->2", "nccl:send 1->3", "nccl:send 6->9", "nccl:recv 1<-?",
                                   "nccl:recvAnySource", "xccl:send 1->2", "nccl:send 1->"}) {
        const auto dump = dump_of({transfer(1, "nccl:send 1->2", "scheduled"), transfer(2, name, "scheduled")});
        ASSERT_EQ(dump.transfers.size(), 1U) << name;
        EXPECT_FALSE(dump.transfers[0].is_clear) << name;
        EXPECT_FALSE(dump.is_complete) << name;
    }
}

TEST(Transfers, AreCompleteFromTheFirstRecordOn) {
    const auto first = transfer(1, "nccl:send 1->2", "completed");
    const auto second = transfer(2, "nccl:send 1->2", "completed");
    EXPECT_TRUE(dump_of({first, second}).is_complete);
    EXPECT_FALSE(dump_of({first, second}, 1).is_complete) << "the oldest is overwritten, or a completed one left out";
    EXPECT_FALSE(dump_of({second}).is_complete) << "the recorder was emptied";
    EXPECT_FALSE(dump_of({}).is_complete);
}

TEST(Transfers, TheEndOfALostBatchLosesThoseThatMayWait) {
    const auto dump_with = [](std::string_view state) {
        return dump_of({transfer(1, "nccl:coalesced", state), transfer(2, "nccl:send 1->2", "scheduled")}, 9);
    };
    EXPECT_TRUE(dump_with("completed").transfers.at(0).is_clear);
    EXPECT_FALSE(dump_with("started").transfers.at(0).is_clear);
}

} // namespace
} // namespace rdma_nccl::flight_recorder
