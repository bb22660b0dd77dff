// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/shared_memory.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace rdma_nccl {
namespace {

using Texts = std::vector<std::string>;

/// What this process sees of what a child has recorded.
Texts recorded_by_child(const Texts& sentences) {
    const auto shared = SharedSentences::create();
    if (!shared) {
        return {"no memory"};
    }
    const pid_t child = ::fork();
    if (child == 0) {
        shared->record(sentences);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return shared->all();
}

TEST(SharedMemory, OfNoBytesIsNone) {
    EXPECT_EQ(shared_memory(0), nullptr);
    EXPECT_NE(shared_memory(1), nullptr);
}

TEST(SharedSentences, AreNoneAtFirst) {
    EXPECT_EQ(SharedSentences::create()->all(), Texts());
    EXPECT_EQ(recorded_by_child({}), Texts());
}

TEST(SharedSentences, OfAChildAreSeen) {
    const Texts sentences{"the container has no libibverbs", "", "its /dev/shm has 64 MiB"};
    EXPECT_EQ(recorded_by_child(sentences), sentences);
}

TEST(SharedSentences, ThatDoNotFitAreLeftOut) {
    const std::string half(2000, 'a');
    const std::string longer(2100, 'b');
    EXPECT_EQ(recorded_by_child({half, longer, half, "c"}), Texts({half, half, "c"}));
    EXPECT_EQ(recorded_by_child({std::string(5000, 'd')}), Texts());
    EXPECT_EQ(recorded_by_child({std::string(4091, 'e'), "f"}), Texts({std::string(4091, 'e')}));
    EXPECT_EQ(recorded_by_child({std::string(4092, 'g'), "h"}), Texts({"h"}));
}

} // namespace
} // namespace rdma_nccl
