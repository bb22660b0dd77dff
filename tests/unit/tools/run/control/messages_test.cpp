// SPDX-License-Identifier: Apache-2.0
#include "tools/run/control/messages.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace rdma_nccl::run {

namespace {

RankFailure full_failure() {
    RankFailure failure;
    failure.host = "n02";
    failure.node_rank = 1;
    failure.rank = 11;
    failure.local_rank = 3;
    failure.attempt = 1;
    failure.most_attempts = 4;
    failure.pid = 4711;
    failure.program = "train.py";
    failure.code = 137;
    failure.signal = 9;
    failure.core_dumped = true;
    failure.exec_error = EACCES;
    failure.out_of_memory = true;
    failure.gpu_pci = "0000:17:00.0";
    failure.gpu_uuid = "GPU-1";
    failure.hcas = {"mlx5_0", "mlx5_1"};
    failure.error = "\xc3\xa4 \x1b";
    failure.traceback = "line 1\nline 2";
    failure.last_lines = {"one\ttwo", ""};
    failure.time_us = 1'800'000'000'000'000;
    return failure;
}

RankDump full_dump() {
    const flight_recorder::Collective pending{10, "all_reduce", flight_recorder::CollectiveState::Started,
                                              16, "[8, 2]",     "Float"};
    return {"n02",
            "/logs/" + std::string(500, 'x'),
            1,
            {"2.10",
             11,
             {{"0", "dp", 16, {10, 10, 9}, pending}},
             {{"pp", 4, 77, 12, true, true, true, 3, pending}},
             true,
             "send of pp"}};
}

std::string again(const std::string& text) {
    const auto message = read_message<ControlMessage>(text);
    return message ? write_message(*message) : message.error().message;
}

RankFailure sent(const RankFailure& failure) {
    const auto text = write_message(FailureNotice{shortened(failure), 1234});
    EXPECT_LE(text.size(), most_control_line);
    const auto message = read_message<ControlMessage>(text);
    EXPECT_TRUE(message) << message.error().message;
    return message ? std::get<FailureNotice>(*message).failure : RankFailure();
}

TEST(RunControlMessage, ADumpIsComplete) {
    const auto message = read_message<ControlMessage>(write_message(DumpNotice{full_dump()}));
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<DumpNotice>(*message).dump, full_dump());
}

TEST(RunControlMessage, EachComesBackAsItWas) {
    const ControlMessage messages[] = {Hello{3, "n04", {"9.8.7", 99}},
                                       FailureNotice{full_failure(), 1234},
                                       DumpNotice{full_dump()},
                                       Ended{2, false},
                                       SignalCount{10, 4, true},
                                       Alive{true},
                                       Welcome{},
                                       Refused{},
                                       EndRanks{1, "rank 3 failed"},
                                       Restart{2, 12003},
                                       Finish{139},
                                       ShowStacks{},
                                       Laggard{"10.0.0.1", 4711, "has not entered all-reduce 7"}};
    for (const auto& message : messages) {
        const auto text = write_message(message);
        EXPECT_EQ(text.find('\n'), std::string::npos);
        EXPECT_EQ(again(text), text);
    }
    EXPECT_EQ(sent(full_failure()), full_failure());
    EXPECT_EQ(sent(RankFailure()), RankFailure());
}

TEST(RunControlMessage, AFailureFitsWhateverItsWordsAre) {
    for (const char byte : {'\x1b', '\xff', '"'}) {
        auto failure = full_failure();
        const std::string bad(100000, byte);
        failure.host = failure.program = failure.gpu_pci = failure.gpu_uuid = failure.error = bad;
        failure.traceback = bad + "the end";
        failure.hcas = std::vector<std::string>(100, bad);
        failure.last_lines = std::vector<std::string>(10000, std::string(2, byte));
        failure.last_lines.emplace_back("the last");
        const auto read = sent(failure);
        EXPECT_TRUE(read.traceback.starts_with("...") && read.traceback.ends_with("the end"));
        EXPECT_EQ(read.last_lines.back(), "the last");
        EXPECT_GT(read.last_lines.size(), 100U);
        EXPECT_TRUE(read.error.ends_with("..."));
    }
}

TEST(RunControlMessage, RefusesWhatNoLauncherSays) {
    for (const char* const text : {"",
                                   "{}",
                                   "[]",
                                   "null",
                                   "hello",
                                   R"({"hello": 1})",
                                   R"({"hello": {"host": null}})",
                                   R"({"nobody": {}})",
                                   R"({"finish": {"code": 256}})",
                                   R"({"finish": {"code": -1}})",
                                   R"({"finish": {"code": "1"}})",
                                   R"({"finish": {"code": 1}, "alive": {"moved": true}})",
                                   R"({"restart": {"attempt": 1, "port": 65536}})",
                                   R"({"signal": {"signal": 4000, "count": 1}})",
                                   R"({"signal": {"signal": -1, "count": 1}})",
                                   R"({"alive": {"moved": 1}})",
                                   R"({"failure": {"age_us": 1, "failure": "no object"}})",
                                   R"({"failure": {"age_us": -1}})",
                                   R"({"ended": {"attempt": 99999999, "clean": true}})",
                                   "\xff"}) {
        EXPECT_FALSE(read_message<ControlMessage>(text)) << text;
    }
}

TEST(RunControlMessage, RefusesAFailureThatCannotBe) {
    const auto with = [](const std::string& more) {
        return read_message<ControlMessage>(R"({"failure": {"failure": {"host": "n", "code": 1)" + more + "}}}");
    };
    EXPECT_TRUE(with(R"(, "unknown": [1, {}])"));
    for (const auto* const more :
         {R"(, "rank": -1)", R"(, "rank": 1.5)", R"(, "rank": "1")", R"(, "rank": 99999999999999999999)",
          R"(, "pid": 18446744073709551615)", R"(, "pid": -1)", R"(, "code": 256)", R"(, "code": -1)",
          R"(, "signal": 0)", R"(, "signal": 65)", R"(, "exec_error": -2)", R"(, "core_dumped": 1)",
          R"(, "host": null)", R"(, "error": {})", R"(, "hcas": "x")", R"(, "last_lines": [1])", R"(, "time_us": -5)",
          R"(, "most_attempts": 0)"}) {
        EXPECT_FALSE(with(more)) << more;
    }
    EXPECT_EQ(std::get<FailureNotice>(*with(R"(, "host": "a\u001bb\n")")).failure.host, "a?b?");
}

TEST(RunControlMessage, UnknownKeysArePassedOver) {
    const auto message = read_message<ControlMessage>(R"({"finish": {"code": 3, "mood": "good"}})");
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<Finish>(*message).code, 3);
}

} // namespace

} // namespace rdma_nccl::run
