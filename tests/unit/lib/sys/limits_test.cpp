// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/resources.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace rdma_nccl {
namespace {

using Texts = std::vector<std::string>;

Limits limits(std::optional<std::uint64_t> memlock_kib, std::optional<std::uint64_t> open_files = {},
              std::optional<std::uint64_t> shm_mib = {}) {
    return {memlock_kib, open_files, shm_mib};
}

/// The warning, which must be the only one.
std::string warning(const Limits& of, bool uses_rdma = true, unsigned ranks = 8) {
    const auto warnings = judge_limits(of, uses_rdma, ranks);
    return warnings.size() == 1 ? warnings.front() : std::to_string(warnings.size()) + " warnings";
}

TEST(Limits, OfNothingAreNoneToWarnOf) {
    EXPECT_TRUE(judge_limits(Limits(), true, 100000).empty());
}

TEST(Limits, LockedMemoryIsTooLittleBelow64MiB) {
    EXPECT_TRUE(judge_limits(limits(65536), true, 8).empty());
    EXPECT_EQ(warning(limits(65535)).find("locked memory is limited to 65535 KiB, RDMA needs more: "), 0U);
    EXPECT_NE(warning(limits(64)).find("PropagateResourceLimitsExcept=MEMLOCK"), std::string::npos);
    EXPECT_NE(warning(limits(64)).find("memlock=raise"), std::string::npos);
    EXPECT_TRUE(judge_limits(limits(64), false, 8).empty());
}

TEST(Limits, OpenFilesGrowWithTheRanks) {
    EXPECT_TRUE(judge_limits(limits({}, 264), true, 8).empty());
    EXPECT_EQ(warning(limits({}, 263)), "open files are limited to 263, 8 ranks need 264 or more: ulimit -n");
    EXPECT_EQ(warning(limits({}, 1024), false, 1000),
              "open files are limited to 1024, 1000 ranks need 1256 or more: ulimit -n");
}

TEST(Limits, SharedMemoryIsTooLittleBelow256MiB) {
    EXPECT_TRUE(judge_limits(limits({}, {}, 256), true, 8).empty());
    EXPECT_EQ(warning(limits({}, {}, 255)).find("/dev/shm has 255 MiB left, "), 0U);
    EXPECT_EQ(warning(limits({}, {}, 0), false).find("/dev/shm has 0 MiB left, "), 0U);
}

TEST(Limits, AreAllWarnedOfAtOnce) {
    EXPECT_EQ(judge_limits(limits(64, 64, 64), true, 8).size(), 3U);
}

/// Low limits for the time of a test; the hard ones stay, so that they can be raised again.
class LimitsOfThisProcess : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files_), 0);
        ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &memlock_), 0);
        ASSERT_GE(files_.rlim_max, 700U);
    }
    void TearDown() override {
        ::setrlimit(RLIMIT_NOFILE, &files_);
        ::setrlimit(RLIMIT_MEMLOCK, &memlock_);
    }
    static void lower(__rlimit_resource_t resource, rlim_t soft) {
        rlimit limit{};
        ASSERT_EQ(::getrlimit(resource, &limit), 0);
        limit.rlim_cur = soft;
        ASSERT_EQ(::setrlimit(resource, &limit), 0);
    }

    rlimit files_{};
    rlimit memlock_{};
};

TEST_F(LimitsOfThisProcess, AreItsSoftOnesWithoutSlurms) {
    lower(RLIMIT_NOFILE, 300);
    lower(RLIMIT_MEMLOCK, 5 << 10);
    const Limits read = read_limits(Environment());
    EXPECT_EQ(read.open_files, 300U);
    EXPECT_EQ(read.memlock_kib, 5U);
}

TEST_F(LimitsOfThisProcess, GiveWayToWhatSlurmWillSet) {
    lower(RLIMIT_NOFILE, 300);
    EXPECT_EQ(read_limits(Environment(Texts{"SLURM_RLIMIT_NOFILE=512"})).open_files, 512U);
    EXPECT_EQ(read_limits(Environment(Texts{"SLURM_RLIMIT_NOFILE=U600"})).open_files, 600U);
    EXPECT_EQ(read_limits(Environment(Texts{"SLURM_RLIMIT_NOFILE=200"})).open_files, 200U);
    EXPECT_EQ(read_limits(Environment(Texts{"SLURM_RLIMIT_MEMLOCK=4096"})).memlock_kib, 4U);
    for (const auto* const text : {"", "U", "x", "-1", "UU5", "5U", "99999999999999999999"}) {
        EXPECT_EQ(read_limits(Environment(Texts{std::string("SLURM_RLIMIT_NOFILE=") + text})).open_files, 300U) << text;
    }
}

TEST_F(LimitsOfThisProcess, StayBelowTheHardOnes) {
    const auto read = [](const char* name, const std::string& value) {
        return read_limits(Environment(Texts{std::string(name) + "=" + value}));
    };
    const std::string unlimited = std::to_string(RLIM_INFINITY);
    const auto hard_files = files_.rlim_max;
    EXPECT_EQ(read("SLURM_RLIMIT_NOFILE", unlimited).open_files,
              hard_files == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(hard_files));
    const auto hard = memlock_.rlim_max;
    EXPECT_EQ(read("SLURM_RLIMIT_MEMLOCK", unlimited).memlock_kib,
              hard == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(hard / 1024));
}

} // namespace
} // namespace rdma_nccl
