// SPDX-License-Identifier: Apache-2.0
#include "lib/base/lists.h"
#include "lib/profile/profile.h"
#include "tests/profiler/fake_nccl.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <vector>

namespace rdma_nccl::test {
namespace {

using profile::FlowKind;
using profile::Function;

constexpr std::size_t mib = 1 << 20;

/// Of the build that this program is from.
std::string built_plugin() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "librdma_nccl_profiler.so";
}

/// A directory for the files of processes.
class Directory {
public:
    Directory() {
        std::string name = "/dev/shm/profiles.XXXXXX"; // on a disk the plugin keeps no file
        path_ = ::mkdtemp(name.data());
    }
    ~Directory() { std::filesystem::remove_all(path_); }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    Directory(Directory&&) = delete;
    Directory& operator=(Directory&&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::vector<profile::ProcessProfile> read() const {
        std::vector<profile::ProcessProfile> processes;
        for (auto& [file, process] : profile::read_profiles(path_)) {
            processes.push_back(std::move(process));
        }
        return processes;
    }

private:
    std::string path_;
};

/// The library counts once for each process: each test has one of its own.
std::vector<profile::ProcessProfile> in_processes(int count, const auto& play, const char* directory = nullptr) {
    const Directory profiles;
    std::vector<pid_t> children;
    for (int rank = 0; rank < count; ++rank) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::setenv("RDMA_NCCL_PROFILES", directory == nullptr ? profiles.path().c_str() : directory, 1);
            ::_exit(play(rank) ? 0 : 1);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = -1;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0) << "a process failed or crashed";
    }
    return profiles.read();
}

std::vector<profile::ProcessProfile> in_process(const auto& play) {
    return in_processes(1, [&](int) { return play(); });
}

std::vector<profile::CommunicatorTotals> totals_of(const std::vector<profile::ProcessProfile>& profiles) {
    std::vector<profile::CommunicatorTotals> all;
    for (const auto& each : profiles) {
        append(all, profile::totals_of(each));
    }
    return profile::merged(std::move(all));
}

std::uint64_t bytes_of(const profile::ProcessProfile& process, FlowKind kind, bool sends, std::uint32_t peer) {
    std::uint64_t sum = 0;
    for (const auto& flow : process.flows) {
        sum += flow.key.kind == kind && flow.key.sends == sends && flow.key.peer == peer ? flow.bytes : 0;
    }
    return sum;
}

/// Operations to rank 1 that have begun, and none of their steps.
std::vector<void*> begin_sends(auto& nccl, unsigned count) {
    std::vector<void*> operations(count);
    std::ranges::generate(operations, [&] { return nccl.operation(nullptr, 1, true); });
    return operations;
}

/// Ten bytes each.
void send_tens(auto& nccl, const std::vector<void*>& operations) {
    for (void* const operation : operations) {
        nccl.transfer(operation, true, {10});
        nccl.stop(operation);
    }
}

template<typename Version>
class EachVersion : public testing::Test {
protected:
    using Nccl = FakeNccl<Version::value>;
};
template<int number>
using Version = std::integral_constant<int, number>;
using Versions = testing::Types<Version<1>, Version<2>, Version<3>, Version<4>, Version<5>, Version<6>>;
TYPED_TEST_SUITE(EachVersion, Versions);

TYPED_TEST(EachVersion, CountsARingToTheByte) {
    for (const int ranks : {2, 16}) {
        const std::vector<std::size_t> sizes(static_cast<std::size_t>(2 * (ranks - 1)), mib + 3);
        const auto profiles = in_processes(ranks, [&](int rank) {
            const Library library(built_plugin());
            typename TestFixture::Nccl nccl(library, 0xabc, ranks, rank);
            if (!nccl.good() || nccl.mask() != (nccl.counts_steps ? 0x18 : 0x8)) {
                return false;
            }
            nccl.all_reduce(sizes);
            nccl.all_reduce({});
            nccl.finalize();
            return nccl.good();
        });
        ASSERT_EQ(profiles.size(), static_cast<std::size_t>(ranks));
        for (const auto& process : profiles) {
            EXPECT_EQ(process.interface, static_cast<unsigned>(TypeParam::value));
            EXPECT_EQ(process.dropped, 0U);
            ASSERT_EQ(process.communicators.size(), 1U);
            const auto& entry = process.communicators.begin()->second;
            EXPECT_EQ(entry.id, 0xabcU);
            EXPECT_EQ(entry.name, "tp");
            EXPECT_EQ(entry.ranks, TypeParam::value < 4 ? 0 : ranks);
            EXPECT_FALSE(entry.open);
            const std::uint64_t all = sizes.size() * (mib + 3);
            const auto count = static_cast<unsigned>(ranks);
            const auto rank = static_cast<unsigned>(entry.rank);
            EXPECT_EQ(bytes_of(process, FlowKind::Own, true, (rank + 1) % count), all);
            EXPECT_EQ(bytes_of(process, FlowKind::Own, false, (rank + count - 1) % count), all);
            for (const auto& flow : process.flows) {
                EXPECT_EQ(flow.key.function, Function::AllReduce);
                EXPECT_EQ(flow.operations, 2U);
            }
        }
        const auto sums = totals_of(profiles);
        ASSERT_EQ(sums.size(), 1U);
        EXPECT_EQ(sums[0].processes, static_cast<unsigned>(ranks));
        EXPECT_EQ(sums[0].sent, static_cast<unsigned>(ranks) * sizes.size() * (mib + 3));
        EXPECT_EQ(sums[0].received, sums[0].sent);
    }
}

TYPED_TEST(EachVersion, SendsAndReceivesOfNamedPeers) {
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        typename TestFixture::Nccl nccl(library, 1, 4, 0);
        for (const int peer : {1, 2, 3}) {
            void* const send = nccl.call("Send", false);
            void* const operation = nccl.operation(send, peer, true);
            nccl.transfer(operation, true, {static_cast<std::size_t>(peer) * 1000});
            nccl.stop(operation);
            nccl.stop(send);
        }
        return nccl.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    for (const unsigned peer : {1U, 2U, 3U}) {
        EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, peer), peer * 1000);
    }
    EXPECT_TRUE(profiles[0].communicators.begin()->second.open) << "it was not finalized";
}

TYPED_TEST(EachVersion, OperationsOfOtherProcessesAreOnTheirBehalf) {
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        typename TestFixture::Nccl nccl(library, 1, 4, 0);
        void* const call = nccl.call("AllReduce");
        void* const own = nccl.operation(call, 1, true);
        void* const other = nccl.operation(nccl.garbage(), 2, true, ::getppid());
        const typename TestFixture::Nccl::OfAnotherProcess with_its_context(nccl);
        void* const of_equal_pid = nccl.operation(nccl.garbage(), 3, true); // in another PID namespace
        nccl.transfer(own, true, {100});
        nccl.transfer(other, true, {7000});
        nccl.transfer(of_equal_pid, true, {80});
        nccl.stop(of_equal_pid);
        nccl.stop(other);
        nccl.stop(own);
        return nccl.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, 1), 100U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, 2), 0U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::OnBehalf, true, 2), 7000U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, 3), 0U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::OnBehalf, true, 3), 80U);
}

TYPED_TEST(EachVersion, BearsWhatNcclGetsWrong) {
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        typename TestFixture::Nccl nccl(library, 1, 2, 0);
        nccl.stop(nullptr);
        nccl.record(nullptr, 9, 1);
        nccl.stop(nccl.garbage());
        nccl.record(nccl.garbage(), 9, 1);
        nccl.record(nccl.start(nccl.event(0x100, nullptr, 0)), 23);
        nccl.step(nullptr, 0);
        nccl.step(nccl.garbage(), 0);
        void* const operation = nccl.operation(nullptr, 1, true); // without a parent
        nccl.transfer(operation, true, {5});
        void* const step = nccl.step(operation, 1);
        void* const unposted = nccl.operation(nullptr, 1, true);
        nccl.record(unposted, profiler::SendDone, 1000);
        nccl.stop(unposted);
        void* const backwards = nccl.operation(nullptr, 1, true);
        nccl.record(backwards, profiler::SendPosted, 1000);
        nccl.record(backwards, profiler::SendDone, 900);
        nccl.stop(backwards);
        nccl.stop(operation);
        nccl.record(step, 9, 1000);
        nccl.stop(step);
        nccl.stop(operation);
        nccl.record(operation, 3, 1000);
        // Of places that were never used, and of those that are free again.
        for (std::uintptr_t bits = 0; bits < 0x14000; ++bits) {
            void* const strange = nccl.like_context(bits & 0x3fff, bits >> 14U);
            nccl.record(nccl.step(strange, 0), profiler::SendWait, 1 << 20);
            nccl.record(strange, profiler::SendWait, 1 << 20);
            nccl.record(strange, profiler::SendDone, 1 << 20);
            nccl.stop(strange);
        }
        for (int i = 0; i < 100'000; ++i) { // as of CollNet and copy engines: never ended
            nccl.operation(nullptr, 1, false);
        }
        void* const later = nccl.operation(nullptr, 1, true);
        nccl.transfer(later, true, {6, 0});
        nccl.stop(later);
        nccl.finalize();
        nccl.finalize();
        void* const last = nccl.operation(nullptr, 1, true); // of a communicator that shares the proxy
        nccl.transfer(last, true, {8});
        return nccl.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, 1), 5U + 6 + 8);
    EXPECT_EQ(profiles[0].dropped, 0U);
}

TYPED_TEST(EachVersion, ManyOperationsWaitForTheirFirstStep) {
    constexpr unsigned count = 30'000;
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        typename TestFixture::Nccl nccl(library, 1, 2, 0);
        send_tens(nccl, begin_sends(nccl, count));
        return nccl.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, 1), 10U * count);
    EXPECT_EQ(totals_of(profiles).at(0).lost, 0U);
}

TYPED_TEST(EachVersion, SaysWhatItCouldNotCount) {
    constexpr unsigned count = 70'000;
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        typename TestFixture::Nccl nccl(library, 1, 2, 0);
        send_tens(nccl, begin_sends(nccl, count));
        return nccl.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    const auto sums = totals_of(profiles).at(0);
    EXPECT_GE(sums.lost, count - 65536);
    EXPECT_LT(sums.lost, count - 49152);
    EXPECT_EQ(sums.sent, 10U * (count - sums.lost));
}

using Newest = FakeNccl<6>;

TEST(Process, FewLongOperationsTakeNoPlaceOfOthers) {
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        Newest nccl(library, 1, 3, 0);
        const auto waiting = begin_sends(nccl, 64);
        for (int i = 0; i < 200'000; ++i) {
            void* const operation = nccl.operation(nullptr, 2, true);
            nccl.transfer(operation, true, {10});
            nccl.stop(operation);
        }
        send_tens(nccl, waiting);
        return nccl.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, 1), 640U);
    EXPECT_EQ(bytes_of(profiles[0], FlowKind::Own, true, 2), 2'000'000U);
    EXPECT_EQ(totals_of(profiles).at(0).lost, 0U);
}

TEST(Process, TimesAllPeersAlike) {
    constexpr int peers = 16; // one step each, always in the same order
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        Newest nccl(library, 1, peers + 1, 0);
        for (int round = 0; round < 400; ++round) {
            for (int peer = 1; peer <= peers; ++peer) {
                void* const operation = nccl.operation(nullptr, peer, true);
                nccl.transfer(operation, true, {10});
                nccl.stop(operation);
            }
        }
        return nccl.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    int timed = 0;
    for (const auto& flow : profiles[0].flows) {
        timed += flow.waits.total() > 0 ? 1 : 0;
    }
    EXPECT_EQ(timed, static_cast<std::size_t>(peers));
}

TEST(Process, CommunicatorsBeginAtOnceAndAgainAfterUnloading) {
    const auto profiles = in_process([] {
        for (int round = 0; round < 2; ++round) {
            const Library library(built_plugin());
            std::vector<std::thread> threads;
            threads.reserve(16);
            std::atomic<int> good{0};
            for (int i = 0; i < 16; ++i) {
                threads.emplace_back([&, i] {
                    Newest nccl(library, static_cast<unsigned>(100 * round + i + 1), 2, 0);
                    nccl.all_reduce(std::vector<std::size_t>(100, 1000));
                    nccl.finalize();
                    good += nccl.good() ? 1 : 0;
                });
            }
            for (auto& thread : threads) {
                thread.join();
            }
            if (good != 16) {
                return false;
            }
        }
        return true;
    });
    ASSERT_EQ(profiles.size(), 1U) << "one file for the process";
    const auto sums = totals_of(profiles);
    ASSERT_EQ(sums.size(), 32U);
    for (const auto& sum : sums) {
        EXPECT_EQ(sum.sent, 100'000U);
        EXPECT_EQ(sum.received, 100'000U);
    }
}

TEST(Process, TheChildOfAForkHasAFileOfItsOwn) {
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        Newest nccl(library, 1, 2, 0);
        nccl.all_reduce({10});
        const pid_t child = ::fork();
        if (child == 0) {
            Newest another(library, 2, 2, 0);
            another.all_reduce({20});
            ::_exit(another.good() ? 0 : 1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        nccl.all_reduce({1});
        return status == 0 && nccl.good();
    });
    ASSERT_EQ(profiles.size(), 2U);
    const auto sums = totals_of(profiles);
    ASSERT_EQ(sums.size(), 2U);
    EXPECT_EQ(sums[0].sent, 20U);
    EXPECT_EQ(sums[1].sent, 11U);
}

TEST(Process, IsReadWhileItRunsAndAfterItWasKilled) {
    const Directory profiles;
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::setenv("RDMA_NCCL_PROFILES", profiles.path().c_str(), 1);
        const Library library(built_plugin());
        Newest nccl(library, 1, 2, 0);
        nccl.all_reduce({77});
        (void)!::write(ends[1], "x", 1);
        ::pause();
        ::_exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    const auto running = totals_of(profiles.read());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (const auto& sums : {running, totals_of(profiles.read())}) {
        ASSERT_EQ(sums.size(), 1U);
        EXPECT_EQ(sums[0].sent, 77U);
    }
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST(Process, GoesOnWhereItCannotWrite) {
    for (const char* const directory : {"/nowhere", "", "/proc"}) {
        in_processes( // expects that they end well
            1,
            [](int) {
                const Library library(built_plugin());
                Newest nccl(library, 1, 2, 0);
                nccl.all_reduce({10});
                nccl.finalize();
                return nccl.good();
            },
            directory);
    }
}

TEST(Process, MoreCommunicatorsAndPeersThanThereIsRoomFor) {
    const auto profiles = in_process([] {
        const Library library(built_plugin());
        bool good = true;
        for (unsigned i = 0; i < profile::most_communicators + 10; ++i) {
            Newest nccl(library, i + 1, 2, 0);
            good = good && nccl.good();
        }
        Newest last(library, 77777, 2, 0);
        for (int peer = 0; peer < 20000; ++peer) {
            void* const operation = last.operation(nullptr, peer, true);
            last.transfer(operation, true, {10});
            last.stop(operation);
        }
        return good && last.good();
    });
    ASSERT_EQ(profiles.size(), 1U);
    std::uint64_t all = profiles[0].rest.bytes;
    for (const auto& flow : profiles[0].flows) {
        all += flow.bytes;
    }
    EXPECT_EQ(all + 10 * profiles[0].dropped, 200'000U);
    EXPECT_EQ(profiles[0].communicators.size(), profile::most_communicators - 1);
}

} // namespace
} // namespace rdma_nccl::test
