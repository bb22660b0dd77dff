// SPDX-License-Identifier: Apache-2.0
// On this machine's own CPUs, in threads, so that the test program itself stays where it is.
#include "lib/sys/resources.h"

#include <cerrno>
#include <functional>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {
namespace {

void in_a_thread(const std::function<void()>& run) {
    std::thread(run).join();
}

Binding to_cpu(unsigned cpu) {
    return {CpuSet::range(cpu, cpu), {}};
}

/// False where the kernel has no NUMA or a sandbox forbids the calls.
bool has_memory_policies() {
    return read_memory_policy().has_value();
}

TEST(Binding, BindsToTheCpusAndTheyAreReadBack) {
    const CpuSet before = read_affinity();
    ASSERT_FALSE(before.empty());
    const unsigned last = before.cpus().back();
    in_a_thread([&] {
        const auto bound = bind_self(to_cpu(last));
        EXPECT_TRUE(bound) << bound.error().message;
        EXPECT_EQ(read_affinity(), CpuSet::range(last, last));
    });
    EXPECT_EQ(read_affinity(), before);
}

TEST(Binding, OfNothingChangesNothing) {
    in_a_thread([] {
        const CpuSet before = read_affinity();
        EXPECT_TRUE(bind_self(Binding()));
        EXPECT_EQ(read_affinity(), before);
        EXPECT_TRUE(!read_memory_policy() || read_memory_policy()->is_default());
    });
}

TEST(Binding, ToACpuThatDoesNotExistNamesIt) {
    in_a_thread([] {
        const CpuSet before = read_affinity();
        const auto bound = bind_self(to_cpu(8191));
        ASSERT_FALSE(bound);
        EXPECT_EQ(bound.error().message.find("cannot run on CPUs 8191: "), 0U) << bound.error().message;
        EXPECT_EQ(bound.error().os_error, EINVAL);
        EXPECT_EQ(read_affinity(), before);
    });
}

TEST(Binding, ToCpusOfWhichSomeDoNotExistSaysWhatItGot) {
    in_a_thread([] {
        const unsigned first = *read_affinity().first();
        const auto bound = bind_self({CpuSet::range(first, first) | CpuSet::range(8000, 8191), {}});
        ASSERT_FALSE(bound);
        EXPECT_EQ(bound.error().message.find("runs on CPUs " + std::to_string(first) + " instead of "), 0U)
            << bound.error().message;
    });
}

TEST(Binding, PrefersTheMemoryOfANode) {
    if (!has_memory_policies()) {
        GTEST_SKIP() << "no memory policies here";
    }
    in_a_thread([] {
        const auto bound = bind_self({{}, 0});
        EXPECT_TRUE(bound) << bound.error().message;
        EXPECT_EQ(read_memory_policy()->text(), "prefer:0");
        EXPECT_FALSE(read_memory_policy()->is_default());
    });
    EXPECT_EQ(read_memory_policy()->text(), "default");
}

TEST(Binding, LeavesAMemoryPolicyThatSomebodyHasSet) {
    if (!has_memory_policies()) {
        GTEST_SKIP() << "no memory policies here";
    }
    in_a_thread([] {
        const unsigned long node_0 = 1;
        ASSERT_EQ(::syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &node_0, 8UL), 0);
        EXPECT_TRUE(bind_self({{}, 0}));
        EXPECT_EQ(read_memory_policy()->text(), "interleave:0");
    });
}

TEST(Binding, AFaultOfTheMemoryDoesNotKeepTheCpus) {
    if (!has_memory_policies()) {
        GTEST_SKIP() << "no memory policies here";
    }
    in_a_thread([] {
        const unsigned first = *read_affinity().first();
        const auto bound = bind_self({CpuSet::range(first, first), 1023});
        ASSERT_FALSE(bound);
        EXPECT_EQ(bound.error().message.find("cannot prefer the memory of NUMA node 1023: "), 0U)
            << bound.error().message;
        EXPECT_EQ(read_affinity(), CpuSet::range(first, first));
        EXPECT_TRUE(read_memory_policy()->is_default());
    });
}

TEST(Binding, AFaultOfTheCpusDoesNotKeepTheMemory) {
    if (!has_memory_policies()) {
        GTEST_SKIP() << "no memory policies here";
    }
    in_a_thread([] {
        EXPECT_FALSE(bind_self({CpuSet::range(8191, 8191), 0}));
        EXPECT_EQ(read_memory_policy()->text(), "prefer:0");
    });
}

TEST(Binding, ANodeThatLinuxCannotHaveIsPassedOver) {
    in_a_thread([] {
        EXPECT_TRUE(bind_self({{}, 1024}));
        EXPECT_TRUE(!read_memory_policy() || read_memory_policy()->is_default());
    });
}

TEST(Affinity, OfAProcessThatIsNotThereIsEmpty) {
    EXPECT_TRUE(read_affinity(-1).empty());
    EXPECT_EQ(read_affinity(::getpid()), read_affinity());
}

TEST(MemoryPolicy, IsSaidAsNumactlDoes) {
    const CpuSet nodes = CpuSet::range(0, 1);
    EXPECT_EQ((MemoryPolicy{MPOL_DEFAULT, {}}).text(), "default");
    EXPECT_EQ((MemoryPolicy{MPOL_PREFERRED, CpuSet::range(1, 1)}).text(), "prefer:1");
    EXPECT_EQ((MemoryPolicy{MPOL_BIND, nodes}).text(), "bind:0-1");
    EXPECT_EQ((MemoryPolicy{MPOL_INTERLEAVE, nodes}).text(), "interleave:0-1");
    EXPECT_EQ((MemoryPolicy{99, {}}).text(), "policy 99");
}

} // namespace
} // namespace rdma_nccl
