// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/profile/profile.h"
#include "tests/unit/tree.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <sys/stat.h>

namespace rdma_nccl::profile {
namespace {

/// A file in memory, which tests fill as the plugin does.
class FileInMemory {
public:
    FileInMemory() { file_->layout = layout; }
    File& operator*() { return *file_; }
    File* operator->() { return file_.get(); }

    void communicator(std::size_t index, std::uint64_t id, std::string_view name, std::int32_t rank) {
        auto& entry = file_->communicators.at(index);
        entry.state = CommunicatorState::Open;
        entry.id = id;
        entry.rank = rank;
        entry.ranks = 8;
        std::memcpy(entry.name.data(), name.data(), std::min(name.size(), entry.name.size()));
    }
    Flow& flow(std::size_t index, const FlowKey& key, std::uint64_t bytes) {
        auto& flow = file_->flows.at(index);
        flow.key = key.packed();
        flow.bytes = bytes;
        return flow;
    }
    [[nodiscard]] std::string bytes() const { return {reinterpret_cast<const char*>(file_.get()), sizeof(File)}; }
    [[nodiscard]] ProcessProfile parsed() const { return parse_profile(bytes()).value(); }

private:
    std::unique_ptr<File> file_ = std::make_unique<File>();
};

constexpr FlowKey send{FlowKind::Own, true, Function::AllReduce, 1, 4};

TEST(FlowKey, ComesBackFromItsNumber) {
    for (const auto& key : {send, FlowKey{FlowKind::OnBehalf, false, Function::Recv, 0, 0xffffffffU},
                            FlowKey{FlowKind::Calls, false, Function::Other, 1023, 0}}) {
        EXPECT_EQ(FlowKey::unpack(key.packed()), key);
        EXPECT_NE(key.packed(), 0U) << "that is an empty place";
    }
}

TEST(Profile, OfAProcess) {
    FileInMemory file;
    file->pid = 4711;
    file->interface = 6;
    file->dropped = 2;
    file.communicator(1, 0xabc, "tp", 3);
    auto& flow = file.flow(8000, send, 1000);
    flow.operations = 5;
    flow.gpu = 10;
    flow.peer = 20;
    flow.wire = 70;
    file->rest.bytes = 9;
    const auto process = file.parsed();
    EXPECT_EQ(process.pid, 4711U);
    EXPECT_EQ(process.interface, 6U);
    EXPECT_EQ(process.dropped, 2U);
    EXPECT_EQ(process.rest.bytes, 9U);
    ASSERT_EQ(process.flows.size(), 1U);
    EXPECT_EQ(process.flows[0], (FlowTotals{send, 1000, 5, {10, 20, 70}}));
    const auto& entry = process.communicators.at(1);
    EXPECT_EQ(entry.id, 0xabcU);
    EXPECT_EQ(entry.name, "tp");
    EXPECT_EQ(entry.rank, 3);
    EXPECT_TRUE(entry.open);
}

TEST(Profile, LeavesOutWhatMakesNoSense) {
    FileInMemory file;
    file.communicator(1, 1, std::string(longest_name, '\n'), 0); // no zero at its end
    file->communicators[1].ranks = -5;
    file.flow(0, {FlowKind::Own, true, Function::AllReduce, 2, 4}, 1); // there is no such communicator
    file->flows[1].key = 0xf;                                          // no such kind
    file->flows[2].key = 0xff01;                                       // no such function
    const auto process = file.parsed();
    EXPECT_TRUE(process.flows.empty());
    EXPECT_EQ(process.communicators.at(1).name, std::string(longest_name, '?'));
    EXPECT_EQ(process.communicators.at(1).ranks, 0);
}

TEST(Profile, OfAnotherLayoutOrLength) {
    FileInMemory file;
    const auto bytes = file.bytes();
    EXPECT_FALSE(parse_profile(""));
    EXPECT_FALSE(parse_profile(bytes.substr(1)));
    EXPECT_FALSE(parse_profile(bytes + '\0'));
    file->layout = layout + 1;
    EXPECT_FALSE(parse_profile(file.bytes()));
}

TEST(Profile, BearsAnyBytes) {
    std::mt19937 random(1); // NOLINT(cert-msc51-cpp): the same each time
    std::string bytes = FileInMemory().bytes();
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = sizeof(std::uint64_t); i < bytes.size(); ++i) {
            bytes[i] = static_cast<char>(random());
        }
        const auto process = parse_profile(bytes);
        ASSERT_TRUE(process);
        for (const auto& totals : merged(totals_of(*process))) {
            const auto text = title_of(totals) + waits_text(totals);
            EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) << text;
        }
    }
}

TEST(Profile, ReadsRegularFilesOfTheUsersDirectory) {
    test::Tree tree;
    FileInMemory file;
    file->pid = 1;
    tree.file("/own/profile.1.abc", file.bytes()).file("/own/nccl.n01.1.log", file.bytes());
    tree.file("/own/profile.2.cut", file.bytes().substr(1)).file("/elsewhere", file.bytes());
    tree.link("/own/profile.3.link", "../elsewhere").link("/link", "own");
    ASSERT_EQ(::mkfifo(tree.at("/own/profile.4.fifo").c_str(), 0600), 0);
    EXPECT_EQ(read_profiles(tree.at("/own")).size(), 1U);
    EXPECT_TRUE(read_profiles(tree.at("/link")).empty());
    EXPECT_TRUE(read_profiles(tree.at("/nowhere")).empty());
    EXPECT_TRUE(read_profiles("").empty());
}

TEST(Totals, OfTheProcessesOfACommunicator) {
    FileInMemory one;
    one.communicator(1, 0xabc, "tp", 3);
    one->communicators[1].lost = 12;
    auto& slow = one.flow(0, send, 1'000'000);
    slow.peer = 1000;
    slow.wire = 5000;
    one.flow(1, {FlowKind::Own, false, Function::AllReduce, 1, 2}, 500);
    one.flow(2, {FlowKind::OnBehalf, true, Function::AllReduce, 0, 2}, 7777);
    FileInMemory two;
    two.communicator(1, 0xdef, "", 0);
    two.communicator(2, 0xabc, "tp", 2);
    auto& quick = two.flow(0, {FlowKind::Own, true, Function::AllGather, 2, 3}, 2'000'000);
    quick.wire = 1000;
    quick.gpu = 1000;
    two.flow(1, {FlowKind::Own, true, Function::AllReduce, 1, 1}, 7000);
    auto all = totals_of(one.parsed());
    append(all, totals_of(two.parsed()));
    const auto sums = merged(all);
    ASSERT_EQ(sums.size(), 2U);
    EXPECT_EQ(sums[0], (CommunicatorTotals{0xabc, "tp", 8, 2, 3'000'000, 500, 12, {1000, 1000, 6000}, {3, 4, 6000}}));
    EXPECT_EQ(title_of(sums[0]), "tp (8 ranks)");
    EXPECT_EQ(waits_text(sums[0]), "slowest peer 3 -> 4, 75 % of the wait is for the wire, 12 operations not counted");
    EXPECT_EQ(title_of(sums[1]), "def (8 ranks)");
    EXPECT_EQ(waits_text(sums[1]), "");
}

TEST(Totals, BetweenTwoReadings) {
    FileInMemory file;
    file.communicator(1, 0xabc, "tp", 3);
    auto& flow = file.flow(0, send, 1000);
    flow.wire = 100;
    file->communicators[1].lost = 5;
    const auto before = file.parsed();
    flow.bytes = 1500;
    flow.wire = 107;
    file->communicators[1].lost = 6;
    file->dropped = 2;
    file.flow(1, {FlowKind::Own, false, Function::AllReduce, 1, 2}, 20);
    const auto moved = counted_since(before, file.parsed());
    EXPECT_EQ(moved.dropped, 2U);
    const auto totals = totals_of(moved);
    ASSERT_EQ(totals.size(), 1U);
    EXPECT_EQ(std::tuple(totals[0].sent, totals[0].received, totals[0].lost), std::tuple(500U, 20U, 1U));
    EXPECT_EQ(totals[0].waits.wire_ns, 7U);
    const auto backwards = totals_of(counted_since(file.parsed(), before));
    ASSERT_EQ(backwards.size(), 1U);
    EXPECT_FALSE(backwards[0].has_moved()) << "a file may count backwards";
}

TEST(Names, AreOfCommunicatorsThatHaveAnId) {
    FileInMemory file;
    file.communicator(1, 0xabc, "tp", 0);
    file.communicator(2, 0xdef, "", 0);
    file.communicator(3, 0, "dp", 0);
    EXPECT_EQ(names_of({{"profile.1", file.parsed()}}), (std::map<std::uint64_t, std::string>{{0xabc, "tp"}}));
}

TEST(Lags, OfTheRankThatHasCalledLeast) {
    Profiles profiles;
    const auto add = [&](std::int32_t rank, std::uint64_t reduces, std::uint64_t gathers, std::uint64_t sends) {
        FileInMemory file;
        file.communicator(1, 0xabc, "tp", rank);
        const auto calls = [&](std::size_t place, Function function, std::uint64_t count) {
            file.flow(place, {FlowKind::Calls, false, function, 1, 0}, 0).operations = count;
        };
        calls(0, Function::AllReduce, reduces);
        calls(1, Function::Send, sends);
        if (gathers > 0) {
            calls(2, Function::AllGather, gathers);
        }
        profiles["profile." + std::to_string(rank)] = file.parsed();
    };
    add(0, 7, 2, 0);
    EXPECT_TRUE(lags_of(profiles).empty());
    add(1, 5, 3, 90);
    EXPECT_EQ(lags_of(profiles).at(0xabc), (Lag{1, Function::AllReduce, 5, 2}));
    EXPECT_EQ(lag_text(lags_of(profiles).at(0xabc)), "rank 1 is 2 AllReduce calls behind");
    add(2, 7, 0, 0);
    EXPECT_EQ(lags_of(profiles).at(0xabc), (Lag{2, Function::AllGather, 0, 3})) << "it has not called it at all";
}

TEST(Totals, CommunicatorsWithoutAnIdStayApart) {
    FileInMemory file;
    for (const std::uint16_t index : {std::uint16_t{1}, std::uint16_t{2}}) {
        file.communicator(index, 0, "", 0);
        file.flow(index, {FlowKind::Own, true, Function::Send, index, 1}, 10);
    }
    EXPECT_EQ(merged(totals_of(file.parsed())).size(), 2U);
}

} // namespace
} // namespace rdma_nccl::profile
