// SPDX-License-Identifier: Apache-2.0
#include "lib/base/json.h"
#include "tools/run/failure/report.h"

#include "tests/unit/tree.h"
#include "tools/common/print.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace rdma_nccl::run {
namespace {

constexpr std::int64_t ten_oclock = 1795341600123456; // 2026-11-22T10:00:00.123456Z

RankFailure failure_of(unsigned rank, int code) {
    RankFailure failure;
    failure.host = "n02";
    failure.rank = rank;
    failure.local_rank = rank % 8;
    failure.node_rank = rank / 8;
    failure.pid = 1234;
    failure.program = "./train --x";
    failure.code = code;
    failure.time_us = ten_oclock;
    return failure;
}

RankFailure full_failure() {
    auto failure = failure_of(11, 137);
    failure.signal = SIGKILL;
    failure.out_of_memory = true;
    failure.core_dumped = false;
    failure.attempt = 1;
    failure.most_attempts = 3;
    failure.gpu_pci = "0000:8d:00.0";
    failure.gpu_uuid = "GPU-1b2c";
    failure.hcas = {"mlx5_3:1", "mlx5_4:1"};
    failure.error = "ValueError: boom";
    failure.traceback = "Traceback (most recent call last):\n  File \"t.py\", line 4, in main\nValueError: boom\n";
    failure.last_lines = {"loading", "Traceback (most recent call last):", "  File \"t.py\", line 5",
                          "ValueError: boom", "bye"};
    return failure;
}

RankFailure with_signal(int signal) {
    auto failure = failure_of(0, 128 + signal);
    failure.signal = signal;
    return failure;
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

bool is_safe(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); });
}

RankDump dump_of(unsigned rank, std::uint64_t enqueued) {
    flight_recorder::ProcessGroup group{"0", "d\x1bp", 16, {enqueued, enqueued, 9}, std::nullopt};
    if (enqueued > 9) {
        group.pending = {10, "all_reduce", flight_recorder::CollectiveState::Started, 8, "[8]", "Float"};
    }
    return {rank < 8 ? "n01" : "n02", "/logs/\x1b", 0, {"2.10", rank, {group}}};
}

TEST(RunReport, NamesTheRankThatIsMissed) {
    std::vector<RankDump> dumps;
    for (unsigned rank = 0; rank < 16; ++rank) {
        dumps.push_back(dump_of(rank, rank == 13 ? 9 : 10));
    }
    EXPECT_EQ(stuck_text(dumps),
              R"(collectives, by PyTorch's flight recorder in 16 ranks:
  process group "d?p" (16 ranks): all_reduce 10: rank 13 has not entered it; 15 others wait
  dumps: n01:/logs/?
  dumps: n02:/logs/?
)");
    const JobEnd end{1, {failure_of(13, 1)}, {}, dumps};
    const auto json = Json::parse(job_report_json(end)).value();
    EXPECT_EQ(json["stuck"][0]["culprits"][0].get<unsigned>(), 13U);
    EXPECT_EQ(json["dumps"].size(), 2U);
    EXPECT_EQ(report_end(end, "").size(), 2U) << "the failure and the collectives";
}

TEST(RunReport, WithoutAHang) {
    EXPECT_EQ(stuck_text({}), "");
    EXPECT_EQ(stuck_text(std::vector{dump_of(0, 9)}),
              "collectives, by PyTorch's flight recorder in 1 rank:\n  none hangs: what a rank has called, all "
              "have completed\n  dumps: n01:/logs/?\n");
}

TEST(RunReport, TellsAllThatIsKnown) {
    auto other = failure_of(3, 1);
    other.host = "n01";
    other.time_us += 240000;
    EXPECT_EQ(report_text(full_failure(), std::vector{other}),
              R"(rank 11 (local 3) on n02 failed first: killed by signal 9 (Killed), out of memory in its cgroup
  program   ./train --x
  GPU       0000:8d:00.0 (GPU-1b2c), HCA mlx5_3:1, mlx5_4:1
  process   1234, at 2026-11-22T10:00:00.123Z, attempt 2 of 3
  error     ValueError: boom
  advice    give the job more memory (--mem, --mem-per-gpu), or use less of it: fewer workers of data loaders, smaller batches on the host
  traceback
    | Traceback (most recent call last):
    |   File "t.py", line 4, in main
    | ValueError: boom
  last lines of stderr
    | loading
    | bye
  also: rank 3 (local 3) on n01: exited with code 1, 0.2 s later
)");
}

TEST(RunReport, IsShortWhereLittleIsKnown) {
    EXPECT_EQ(report_text(failure_of(0, 7), {}), R"(rank 0 (local 0) on n02 failed first: exited with code 7
  program   ./train --x
  process   1234, at 2026-11-22T10:00:00.123Z
)");
}

TEST(RunReport, CallsNoHcaAGpu) {
    auto failure = failure_of(0, 7);
    failure.hcas = {"mlx5_1:1"};
    EXPECT_NE(report_text(failure, {}).find("\n  HCA       mlx5_1:1\n"), std::string::npos);
    failure.gpu_uuid = "MIG-1b2c";
    EXPECT_NE(report_text(failure, {}).find("\n  GPU       MIG-1b2c, HCA mlx5_1:1\n"), std::string::npos);
}

TEST(RunReport, QuotesAnErrorOfSeveralLines) {
    auto failure = failure_of(0, 1);
    failure.error = "RuntimeError: CUDA error\nCompile with TORCH_USE_CUDA_DSA\n\n";
    EXPECT_NE(report_text(failure, {}).find("  error\n    | RuntimeError: CUDA error\n    | Compile with"),
              std::string::npos);
}

TEST(RunReport, LeavesStderrThatIsOtherThanTheTraceback) {
    auto failure = full_failure();
    failure.last_lines = {"Traceback (most recent call last):", "KeyError: 3"};
    EXPECT_NE(report_text(failure, {}).find("    | KeyError: 3\n"), std::string::npos);
}

TEST(RunReport, SortsTheOthersAndCountsThoseBeyondSixteen) {
    std::vector<RankFailure> others;
    for (unsigned i = 1; i <= 18; ++i) {
        others.push_back(failure_of(i, 1));
        others.back().time_us += 1000000 - static_cast<std::int64_t>(i) * 100000;
    }
    const auto text = report_text(failure_of(0, 1), others);
    EXPECT_EQ(count_of(text, "  also: rank "), 16U);
    EXPECT_NE(text.find("  also: 2 more ranks\n"), std::string::npos);
    EXPECT_NE(text.find("  also: rank 18 (local 2) on n02: exited with code 1, 0.8 s earlier by its node's clock\n"
                        "  also: rank 17 "),
              std::string::npos)
        << text;
}

TEST(RunReport, LetsNothingForeignSteerATerminal) {
    auto failure = full_failure();
    const std::string bad = "\x1b[31mred\x07\r\x9b\xc3\xa4\n\x1b]0;title";
    failure.host = failure.program = failure.gpu_pci = failure.gpu_uuid = failure.error = failure.traceback = bad;
    failure.hcas = failure.last_lines = {bad, bad};
    auto unknown = failure;
    unknown.exec_error = ENOENT;
    EXPECT_TRUE(is_safe(report_text(failure, std::vector{unknown})));
    EXPECT_TRUE(is_safe(report_text(unknown, std::vector{failure})));
    EXPECT_TRUE(is_safe(job_report_json({1, {failure, unknown}, {}})));
}

TEST(RunReport, ShortensLongTexts) {
    auto failure = full_failure();
    failure.program = failure.error = std::string(100000, 'x');
    failure.last_lines = std::vector<std::string>(1000, std::string(5000, 'y'));
    const auto text = report_text(failure, {});
    EXPECT_LT(text.size(), 40000U);
    EXPECT_NE(text.find("xxx...\n"), std::string::npos);
    EXPECT_NE(text.find("| ... (940 more before)\n"), std::string::npos);
}

TEST(RunReport, SaysHowARankEnded) {
    EXPECT_EQ(describe_end(with_signal(SIGTERM)), "killed by signal 15 (Terminated)");
    auto core = with_signal(SIGSEGV);
    core.core_dumped = true;
    EXPECT_EQ(describe_end(core), "killed by signal 11 (Segmentation fault), core dumped");
    auto worker = failure_of(0, 1);
    worker.out_of_memory = true;
    EXPECT_EQ(describe_end(worker), "exited with code 1, after the kernel killed for want of memory in its cgroup");
    auto missing = failure_of(0, 127);
    missing.exec_error = ENOENT;
    EXPECT_EQ(describe_end(missing), "cannot execute ./train --x: No such file or directory");
}

TEST(RunReport, AdvisesWhereTheCauseIsKnown) {
    const auto has = [](const RankFailure& failure, const char* part) {
        return advice_for(failure).find(part) != std::string::npos;
    };
    EXPECT_TRUE(has(with_signal(SIGBUS), "/dev/shm"));
    EXPECT_TRUE(has(with_signal(SIGXCPU), "ulimit -t"));
    EXPECT_TRUE(has(with_signal(SIGKILL), "dmesg"));
    EXPECT_TRUE(has(with_signal(SIGTERM), "SignalChildrenProcesses"));
    EXPECT_TRUE(has(with_signal(SIGUSR1), "no handler"));
    EXPECT_TRUE(has(failure_of(0, 126), "chmod +x"));
    EXPECT_TRUE(has(failure_of(0, 127), "PATH"));
    EXPECT_TRUE(has(failure_of(0, 135), "signal 7 (Bus error): often a full /dev/shm"));
    EXPECT_TRUE(has(full_failure(), "--mem"));
    auto missing = failure_of(0, 127);
    missing.exec_error = ENOENT;
    EXPECT_TRUE(has(missing, "interpreter"));
    EXPECT_EQ(advice_for(failure_of(0, 1)), "");
    EXPECT_EQ(advice_for(failure_of(0, 255)), "");
    EXPECT_EQ(advice_for(with_signal(SIGSEGV)), "");
}

TEST(RunReport, TimesAreOfUtc) {
    EXPECT_EQ(utc_time_text(0), "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(utc_time_text(ten_oclock), "2026-11-22T10:00:00.123Z");
    EXPECT_EQ(utc_time_text(-1), "at an unknown time");
    EXPECT_FALSE(utc_time_text(std::numeric_limits<std::int64_t>::max()).empty());
}

TEST(RunReport, IsJsonWithASchema) {
    const auto json = *Json::parse(job_report_json({137, {full_failure(), failure_of(3, 1)}, {"node n03 is lost"}}));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["code"], 137);
    EXPECT_EQ(json["lost"][0], "node n03 is lost");
    EXPECT_EQ(json["first"]["rank"], 11);
    EXPECT_EQ(json["first"]["signal"], 9);
    EXPECT_EQ(json["first"]["time"], "2026-11-22T10:00:00.123Z");
    EXPECT_EQ(json["first"]["what"], "killed by signal 9 (Killed), out of memory in its cgroup");
    EXPECT_EQ(json["others"].size(), 1U);
    EXPECT_TRUE(json["others"][0]["signal"].is_null());
}

class RunErrorFile : public ::testing::Test {
protected:
    RankFailure read(std::string_view content) {
        tree_.file("/error.json", content);
        RankFailure failure;
        read_error_file(tree_.at("/error.json"), failure);
        return failure;
    }
    test::Tree tree_;
};

/// As torch 1.13 writes it, and 2.x still does.
TEST_F(RunErrorFile, OfTorch) {
    const auto failure = read(R"({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": )"
                              R"("Traceback (most recent call last):\n  File \"rec.py\", line 4, in main\n", )"
                              R"("timestamp": "1795312783"}}})");
    EXPECT_EQ(failure.error, "ValueError: boom");
    EXPECT_EQ(failure.traceback, "Traceback (most recent call last):\n  File \"rec.py\", line 4, in main\n");
}

TEST_F(RunErrorFile, WithAMessageThatIsText) {
    EXPECT_EQ(read(R"({"message": "it broke", "timestamp": 1})").error, "it broke");
}

TEST_F(RunErrorFile, OfAnythingElseSaysNothing) {
    for (const auto* const text : {"", "{", "[]", "7", R"({"message": 7})", R"({"message": {"message": 7}})",
                                   R"({"message": {"extraInfo": []}})", R"({"message": null})", "\xff\xfe"}) {
        EXPECT_EQ(read(text), RankFailure()) << text;
    }
    EXPECT_EQ(read(R"({"message": ")" + std::string(1 << 20, 'x') + "\"}"), RankFailure());
    EXPECT_EQ(read(std::string(1 << 19, '[') + std::string(1 << 19, ']')), RankFailure());
    RankFailure failure;
    read_error_file(tree_.at("/absent"), failure);
    read_error_file(tree_.path(), failure);
    ASSERT_EQ(::mkfifo(tree_.at("/fifo").c_str(), 0600), 0);
    read_error_file(tree_.at("/fifo"), failure);
    const UniqueFd fifo(::open(tree_.at("/fifo").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    constexpr std::string_view message = R"({"message": "waits in the FIFO"})";
    ASSERT_TRUE(write_all(fifo.get(), message));
    read_error_file(tree_.at("/fifo"), failure);
    read_error_file("/dev/zero", failure);
    EXPECT_EQ(failure, RankFailure());
}

class OutOfMemory : public ::testing::Test {
protected:
    void events(const std::string& cgroup, unsigned kills) {
        tree_.file("/sys/fs/cgroup" + cgroup + "/memory.events",
                   "low 0\nhigh 0\nmax 7\noom 9\noom_kill " + std::to_string(kills) + "\noom_group_kill 5\n");
    }
    void cgroup(const std::string& line) { tree_.file("/proc/self/cgroup", line + "\n"); }
    [[nodiscard]] OutOfMemoryWatch watch() const { return OutOfMemoryWatch(tree_.path()); }
    test::Tree tree_;
};

TEST_F(OutOfMemory, IsSeenOnce) {
    cgroup("0::/job");
    events("/job", 3);
    auto watch = this->watch();
    EXPECT_FALSE(watch.happened());
    events("/job", 4);
    EXPECT_TRUE(watch.happened());
    EXPECT_FALSE(watch.happened());
}

/// Slurm's limit is on the job or the step; the launcher may be in a leaf beside those of the ranks.
TEST_F(OutOfMemory, IsSeenInTheWholeStepAndNotBeyond) {
    cgroup("0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0");
    const std::string job = "/system.slice/slurmstepd.scope/job_5";
    events(job, 0);
    events(job + "/step_0", 0);
    events(job + "/step_0/user", 0);
    auto watch = this->watch();
    events(job, 1); // another step of the job
    EXPECT_FALSE(watch.happened());
    events(job + "/step_0", 1);
    EXPECT_TRUE(watch.happened());
}

TEST_F(OutOfMemory, IsSeenInTheNearestCgroupThatHasTheController) {
    cgroup("0::/user.slice/session/app");
    events("/user.slice", 0);
    events("/user.slice/session", 0);
    auto watch = this->watch();
    events("/user.slice", 1);
    EXPECT_FALSE(watch.happened());
    events("/user.slice/session", 1);
    EXPECT_TRUE(watch.happened());
}

TEST_F(OutOfMemory, IsSeenInVersionOne) {
    cgroup("9:cpuset:/slurm/uid_0/job_5/step_1/task_0\n4:memory:/slurm/uid_0/job_5/step_1/task_0\n0::/x");
    const std::string file = "/sys/fs/cgroup/memory/slurm/uid_0/job_5/step_1/task_0/memory.oom_control";
    tree_.file(file, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    auto watch = this->watch();
    tree_.file(file, "oom_kill_disable 0\nunder_oom 1\noom_kill 1\n");
    EXPECT_TRUE(watch.happened());
}

TEST_F(OutOfMemory, InANamespaceOfCgroupsIsInItsRoot) {
    cgroup("0::/");
    events("", 0);
    auto watch = this->watch();
    events("", 1);
    EXPECT_TRUE(watch.happened());
    cgroup("0::/../../other");
    auto outside = this->watch();
    events("", 2);
    EXPECT_TRUE(outside.happened());
}

TEST_F(OutOfMemory, IsNotClaimedWithoutFiles) {
    auto nothing = watch();
    EXPECT_FALSE(nothing.happened());
    cgroup("garbage\n0::\n0::relative\n:::\n\n0::/job");
    tree_.file("/sys/fs/cgroup/job/memory.events", "oom_kill x\noom_kill\n");
    auto garbage = watch();
    EXPECT_FALSE(garbage.happened());
    OutOfMemoryWatch absent("/nonexistent");
    EXPECT_FALSE(absent.happened());
    OutOfMemoryWatch live;
    EXPECT_FALSE(live.happened());
}

} // namespace
} // namespace rdma_nccl::run
