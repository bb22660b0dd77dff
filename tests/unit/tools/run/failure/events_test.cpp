// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/common/print.h"
#include "tools/run/failure/events.h"
#include "tools/run/output/files.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>

namespace rdma_nccl::run {

namespace {

const RankName name{"n01", 0, 11, 3};

class RunEvents : public testing::Test {
protected:
    void SetUp() override {
        ::setenv("TZ", "UTC-5:30", 1); // east, as POSIX has the sign
        ::tzset();
    }
    void TearDown() override {
        ::unsetenv("TZ");
        ::tzset();
    }

    [[nodiscard]] std::string path() const { return folder_->path() + "/events"; }
    /// Each line parsed.
    [[nodiscard]] std::vector<Json> events() const {
        std::ifstream file(path());
        std::vector<Json> result;
        for (std::string line; std::getline(file, line);) {
            result.push_back(*Json::parse(line));
        }
        return result;
    }

    Result<PrivateDirectory> folder_ = PrivateDirectory::create(testing::TempDir());
};

TEST_F(RunEvents, TimeOfDay) {
    EXPECT_EQ(wall_time_text(1'795'341'600'123'456), "2026-11-22T15:30:00.123+05:30");
    EXPECT_EQ(wall_time_text(1'795'341'600'000'045, true), "2026-11-22T15:30:00.000045+05:30");
    ::setenv("TZ", "UTC+3:30", 1);
    ::tzset();
    EXPECT_EQ(wall_time_text(0), "1969-12-31T20:30:00.000-03:30");
}

TEST_F(RunEvents, LinesForPeople) {
    EXPECT_EQ(start_line(name, 1234, 1'795'341'600'123'456),
              "START rank 11 (local 3) on n01, pid 1234, 2026-11-22T15:30:00.123+05:30");
    EXPECT_EQ(end_line(name, 1234, 0, 7, {}),
              "END   rank 11 (local 3) on n01, pid 1234, 1970-01-01T05:30:00.000+05:30: exit code 7");
    EXPECT_EQ(end_line(name, 1234, 0, 137, 9),
              "END   rank 11 (local 3) on n01, pid 1234, 1970-01-01T05:30:00.000+05:30: signal 9 (Killed)");
}

TEST_F(RunEvents, OneLineEach) {
    EXPECT_EQ(event_line({JobEvent::Kind::Exit, 1'795'341'600'123'456, "n01", 11, 3, 1234, 137}),
              R"({"event":"exit","time":"2026-11-22T15:30:00.123456+05:30","time_us":1795341600123456,"host":"n01",)"
              R"("rank":11,"local_rank":3,"pid":1234,"code":137})"
              "\n");
    const auto hostile = event_line({JobEvent::Kind::Signal, 0, "a\n\"\xff", {}, {}, {}, 15});
    EXPECT_EQ(hostile.find('\n'), hostile.size() - 1);
    EXPECT_TRUE(Json::parse(hostile)->at("pid").is_null());
}

TEST_F(RunEvents, InOrder) {
    std::ofstream(path()) << "{}\n"; // of a job before
    auto log = EventLog::open(path(), "n01");
    ASSERT_TRUE(log) << log.error().message;
    log->first_output(3); // the thread may see it first
    log->started(name, 1234);
    log->exited(name, 1234, 7);
    log->job(JobEvent::Kind::Restart, 1);
    log->first_output(3); // of the new start, which has not come
    log->started(name, 1235);
    log->job(JobEvent::Kind::Signal, 15);
    log->job(JobEvent::Kind::End, 143);
    std::string seen;
    for (const auto& event : events()) {
        seen += event.value("event", "-") + (event.value("pid", Json()).dump()) + " ";
    }
    EXPECT_EQ(seen,
              "-null start1234 first_output1234 exit1234 restartnull start1235 first_output1235 signalnull endnull ");
    EXPECT_EQ(events().at(3)["code"], 7);
    EXPECT_EQ(events().at(2)["rank"], 11);
    EXPECT_FALSE(log->take_problem());
}

TEST_F(RunEvents, ErrorsAreToldOnce) {
    auto log = EventLog::open("/dev/full", "n01");
    ASSERT_TRUE(log) << log.error().message;
    log->started(name, 1234);
    log->exited(name, 1234, 0);
    EXPECT_EQ(log->take_problem(),
              "n01: cannot write events to /dev/full: No space left on device; the job goes on without them");
    log->job(JobEvent::Kind::End, 0);
    EXPECT_FALSE(log->take_problem());

    EXPECT_FALSE(EventLog::open(folder_->path() + "/no/events", "n01"));
    ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
    EXPECT_FALSE(EventLog::open(path(), "n01")); // nobody reads: it must not wait
}

} // namespace

} // namespace rdma_nccl::run
