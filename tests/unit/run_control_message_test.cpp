// SPDX-License-Identifier: Apache-2.0
#include "tools/run_control_message.h"

#include <gtest/gtest.h>

namespace rdma_nccl {

namespace {

std::string again(const std::string& line) {
    EXPECT_TRUE(line.ends_with('\n'));
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    const auto message = read_control_message(std::string_view(line).substr(0, line.size() - 1));
    return message ? write_control_message(*message) : message.error().message;
}

TEST(RunControlMessage, EachComesBackAsItWas) {
    RankFailure failure;
    failure.host = "n02";
    failure.rank = 11;
    failure.code = 7;
    failure.traceback = "line 1\nline 2";
    const ControlMessage messages[] = {Hello{3, "n04", "00ff"},
                                       FailureNotice{failure, 1234},
                                       Ended{2, false},
                                       SignalCount{10, 4, true},
                                       Alive{true},
                                       Welcome{"ff00"},
                                       EndRanks{1, "rank 3 failed"},
                                       Restart{2, 12003},
                                       Finish{139},
                                       ShowStacks{}};
    for (const auto& message : messages) {
        const auto line = write_control_message(message);
        EXPECT_EQ(again(line), line);
    }
    const auto line = write_control_message(FailureNotice{failure, 1234});
    const auto notice = read_control_message(std::string_view(line).substr(0, line.size() - 1));
    EXPECT_EQ(std::get<FailureNotice>(*notice).failure, failure);
}

TEST(RunControlMessage, RefusesWhatNoLauncherSays) {
    for (const char* const line :
         {"", "{}", "[]", "null", "hello", R"({"hello": 1})", R"({"hello": {}})", R"({"nobody": {}})",
          R"({"finish": {"code": 256}})", R"({"finish": {"code": -1}})", R"({"finish": {"code": "1"}})",
          R"({"finish": {"code": 1}, "alive": {"moved": true}})", R"({"restart": {"attempt": 1, "port": 65536}})",
          R"({"signal": {"signal": 4000, "count": 1}})", R"({"alive": {"moved": 1}})",
          R"({"failure": {"age_us": 1, "failure": "no JSON"}})", R"({"failure": {"age_us": 1}})",
          R"({"ended": {"attempt": 99999999, "clean": true}})"}) {
        EXPECT_FALSE(read_control_message(line)) << line;
    }
}

TEST(RunControlMessage, UnknownKeysArePassedOver) {
    const auto message = read_control_message(R"({"finish": {"code": 3, "mood": "good"}})");
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<Finish>(*message).code, 3);
}

} // namespace

} // namespace rdma_nccl
