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

} // namespace
} // namespace rdma_nccl::flight_recorder
