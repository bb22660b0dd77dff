// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/laggards.h"

#include "tests/unit/tree.h"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

namespace rdma_nccl::run {
namespace {

class Laggards : public ::testing::Test {
protected:
    /// `ids`: in the PID namespaces from the outermost one to its own.
    void process(pid_t pid, pid_t parent, const std::string& ids) {
        tree_.file("/proc/" + std::to_string(pid) + "/status",
                   "Name:\tx\nPPid:\t" + std::to_string(parent) + "\nNSpid:\t" + ids + "\n");
        tree_.file("/proc/" + std::to_string(pid) + "/stat",
                   std::to_string(pid) + " (x) S " + std::to_string(parent) + " 1 1 0");
    }
    std::optional<RankProcess> find(pid_t own_id, const std::string& host = "127.0.0.1") {
        return find_process(tree_.root(), ranks_, host, own_id);
    }

    test::Tree tree_;
    std::vector<pid_t> ranks_{100, 200};
};

TEST_F(Laggards, AreRanksOrBelowThem) {
    process(100, 1, "100");
    process(200, 1, "200");
    process(201, 200, "201");
    process(202, 201, "202 7");
    process(300, 1, "300");
    EXPECT_EQ(find(100), (RankProcess{0, 100}));
    EXPECT_EQ(find(201), (RankProcess{1, 201}));
    EXPECT_EQ(find(7), (RankProcess{1, 202})) << "in a container";
    EXPECT_EQ(find(202), std::nullopt) << "NCCL sees the container's id";
    EXPECT_EQ(find(300), std::nullopt) << "of another launcher";
}

TEST_F(Laggards, AreOfThisNode) {
    process(100, 1, "100");
    EXPECT_TRUE(find(100, "127.0.0.1"));
    for (const char* const other : {"192.0.2.1", "2001:db8::1", "0.0.0.0", "n01", ""}) { // RFC 5737, RFC 3849
        EXPECT_EQ(find(100, other), std::nullopt) << other;
    }
}

TEST(RasQuestion, SaysWhyThereIsNoAnswer) {
    RasQuestion question;
    EXPECT_FALSE(question.is_open());
    question.start(ras::Use::OfLiveJob, "n01:28028", "");
    std::optional<Result<ras::Verdict>> answer;
    while (!(answer = question.take())) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_FALSE(*answer);
    EXPECT_NE(answer->error().message.find("\"n01:28028\" is no address"), std::string::npos);
    EXPECT_FALSE(question.is_open());
}

} // namespace
} // namespace rdma_nccl::run
