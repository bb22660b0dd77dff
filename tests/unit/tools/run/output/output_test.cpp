// SPDX-License-Identifier: Apache-2.0
// The thread with real pipes, files and writers that are processes of their own.
#include "lib/base/unique_fd.h"
#include "tests/unit/descriptor_limit.h"
#include "tools/run/output/files.h"
#include "tools/run/output/output.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <poll.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl::run {

namespace {

constexpr int limit_ms = 60'000; // far more than anything here takes

/// stdout and stderr of this process are other files as long as this lives. Nothing may be expected meanwhile: what
/// GoogleTest says would go there too.
class Redirected {
public:
    Redirected(int out, int err) {
        (void)std::fflush(nullptr);
        saved_[0].reset(::dup(STDOUT_FILENO));
        saved_[1].reset(::dup(STDERR_FILENO));
        ::dup2(out, STDOUT_FILENO);
        ::dup2(err, STDERR_FILENO);
    }
    Redirected(const Redirected&) = delete;
    Redirected& operator=(const Redirected&) = delete;
    Redirected(Redirected&&) = delete;
    Redirected& operator=(Redirected&&) = delete;
    ~Redirected() {
        (void)std::fflush(nullptr);
        ::dup2(saved_[0].get(), STDOUT_FILENO);
        ::dup2(saved_[1].get(), STDERR_FILENO);
    }

private:
    std::array<UniqueFd, 2> saved_;
};

struct Pipe {
    Pipe() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        reader.reset(ends[0]);
        writer.reset(ends[1]);
    }
    UniqueFd reader;
    UniqueFd writer;
};

std::string read_all(int fd, std::chrono::microseconds pause = {}) {
    std::string text;
    std::array<char, 4096> block{};
    for (ssize_t count = 0; (count = ::read(fd, block.data(), block.size())) > 0;) {
        text.append(block.data(), static_cast<std::size_t>(count));
        std::this_thread::sleep_for(pause);
    }
    return text;
}

void write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const auto count = ::write(fd, text.data(), text.size());
        if (count <= 0) {
            ::_exit(errno);
        }
        text.remove_prefix(static_cast<std::size_t>(count));
    }
}

std::string file_text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

bool is_readable(int fd, int wait_ms) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, wait_ms) == 1;
}

/// A rank: stdout and stderr are its ends. Must not allocate: the sanitizer's allocator, unlike glibc's, may have been
/// locked by another thread when the process was forked. Nor use stdio.
using Writer = std::function<void(unsigned rank)>;

pid_t start_rank(const RankOutput& output, unsigned rank, const Writer& writer) {
    const auto ends = output.ends_of(rank);
    const pid_t pid = ::fork();
    if (pid == 0) {
        (void)std::signal(SIGPIPE, SIG_DFL);
        ::dup2(ends.out, STDOUT_FILENO);
        ::dup2(ends.err, STDERR_FILENO);
        (void)::close_range(3, ~0U, 0); // as the execution of a program does
        writer(rank);
        ::_exit(0);
    }
    return pid;
}

constexpr unsigned many = 4000;

/// Numbered lines of growing length.
std::string many_lines(unsigned rank, int fd) {
    std::string text;
    for (unsigned i = 0; i < many; ++i) {
        text += std::to_string(rank) + (fd == 1 ? " out " : " err ") + std::to_string(i) + " " +
                std::string(i % 200, 'x') + "\n";
    }
    return text;
}

using ManyLines = std::array<std::array<std::string, 2>, 8>; ///< by rank and stream

const ManyLines& many_texts() {
    static const ManyLines texts = [] {
        ManyLines all;
        for (unsigned rank = 0; rank < all.size(); ++rank) {
            all.at(rank) = {many_lines(rank, 1), many_lines(rank, 2)};
        }
        return all;
    }();
    return texts;
}

class RunOutput : public testing::Test {
protected:
    void SetUp() override {
        (void)std::signal(SIGPIPE, SIG_IGN); // as the launcher has it
        (void)many_texts();                  // before there are ranks
    }
    void TearDown() override { (void)std::signal(SIGPIPE, SIG_DFL); }

    /// Ranks of one node, all with the same writer, until all is passed on. `console`: what becomes stdout and stderr.
    void run(unsigned ranks, const Writer& writer, int console_out, int console_err) {
        std::vector<RankName> names;
        for (unsigned i = 0; i < ranks; ++i) {
            names.push_back({"n01", 1, 8 + i, i, "default"});
        }
        const Redirected redirected(console_out, console_err);
        auto output =
            RankOutput::start(options_, names, attempt(), [this](unsigned rank) { first_outputs_ |= 1U << rank; });
        if (!output) {
            error_ = output.error().message;
            return;
        }
        flags_ = ::fcntl(STDOUT_FILENO, F_GETFL);
        std::vector<pid_t> pids;
        for (unsigned i = 0; i < ranks; ++i) {
            pids.push_back(start_rank(*output, i, writer));
        }
        early_ = is_readable(output->done_fd(), 0);
        output->close_ends();
        if (during_) {
            during_(*output);
        }
        done_ = is_readable(output->done_fd(), wait_ms_);
        bytes_ = output->bytes();
        problems_ = output->take_problems();
        for (unsigned i = 0; i < ranks; ++i) {
            last_errors_.push_back(output->last_errors(i, 2));
        }
        output = fail("over"); // writers that still write get SIGPIPE
        for (const pid_t pid : pids) {
            int status = 0;
            ::waitpid(pid, &status, 0);
            statuses_.push_back(status);
        }
    }

    /// With stdout and stderr in one pipe; returns what came out of it.
    std::string run_with_pipe(unsigned ranks, const Writer& writer, std::chrono::microseconds pause = {}) {
        Pipe console;
        auto text = std::async(std::launch::async, [&] { return read_all(console.reader.get(), pause); });
        run(ranks, writer, console.writer.get(), console.writer.get());
        console.writer.reset();
        return text.get();
    }

    [[nodiscard]] std::string attempt() const { return folder_->path() + "/attempt_0"; }
    [[nodiscard]] std::string log(unsigned rank, const char* name) const {
        return file_text(attempt() + "/" + std::to_string(rank) + "/" + name);
    }
    void want_files() { ASSERT_TRUE(make_subdirectory(folder_->path(), "attempt_0")); }

    Result<PrivateDirectory> folder_ = PrivateDirectory::create(testing::TempDir());
    OutputOptions options_;
    std::function<void(RankOutput&)> during_;
    int wait_ms_ = limit_ms;

    std::string error_;
    int flags_ = 0;
    bool early_ = false;
    bool done_ = false;
    std::uint64_t bytes_ = 0;
    std::atomic<unsigned> first_outputs_ = 0;
    std::vector<std::string> problems_;
    std::vector<std::vector<std::string>> last_errors_;
    std::vector<int> statuses_;
};

/// To both streams, in writes that end anywhere.
void write_many(unsigned rank) {
    for (const int fd : {1, 2}) {
        std::string_view text = many_texts().at(rank).at(static_cast<std::size_t>(fd) - 1);
        for (unsigned i = 0; !text.empty(); ++i) {
            const auto part = std::min<std::size_t>(text.size(), 1 + i * 37 % 1500);
            write_all(fd, text.substr(0, part));
            text.remove_prefix(part);
        }
    }
}

/// Each of write_many()'s lines is there once, whole, in the order it was written.
void expect_many(const std::string& text, unsigned ranks) {
    std::map<std::string, unsigned> next;
    for (const auto& line : lines_of(text)) {
        std::istringstream words(line);
        std::string host;
        std::string shown;
        std::string rank;
        std::string stream;
        std::string rest;
        unsigned number = many;
        words >> host >> shown >> rank >> stream >> number >> rest;
        ASSERT_EQ(host, "[n01");
        ASSERT_EQ(shown, std::to_string(8 + std::stoul(rank)) + "]") << line;
        ASSERT_EQ(number, next[rank + stream]++) << line;
        ASSERT_EQ(rest, std::string(number % 200, 'x')) << line;
    }
    EXPECT_EQ(next.size(), ranks * 2);
    for (const auto& [stream, count] : next) {
        EXPECT_EQ(count, many) << stream;
    }
}

TEST_F(RunOutput, NoLineIsTornOrLost) {
    const auto text = run_with_pipe(8, write_many);
    EXPECT_FALSE(early_);
    EXPECT_TRUE(done_);
    expect_many(text, 8);
    EXPECT_EQ(first_outputs_, 0xffU);
    EXPECT_EQ(problems_, std::vector<std::string>{});
    EXPECT_EQ(statuses_, std::vector<int>(8, 0));
}

TEST_F(RunOutput, NorByAnotherProcessOnTheSamePipe) {
    during_ = [](RankOutput&) {
        if (const pid_t other = ::fork(); other == 0) {
            ::usleep(50'000); // until the pipe is full and both wait for room
            for (unsigned i = 0; i < many; ++i) {
                write_all(1, "from elsewhere\n");
            }
            ::_exit(0);
        } else {
            ::waitpid(other, nullptr, 0);
        }
    };
    std::string ours;
    unsigned others = 0;
    for (const auto& line : lines_of(run_with_pipe(4, write_many, std::chrono::microseconds(100)))) {
        line == "from elsewhere" ? void(++others) : void(ours += line + "\n");
    }
    EXPECT_EQ(others, many);
    expect_many(ours, 4);
}

TEST_F(RunOutput, NorWithASlowReader) {
    expect_many(run_with_pipe(2, write_many, std::chrono::microseconds(500)), 2);
}

TEST_F(RunOutput, NorThroughASocket) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    auto text = std::async(std::launch::async, [&] { return read_all(reader.get()); });
    run(2, write_many, writer.get(), writer.get());
    writer.reset();
    expect_many(text.get(), 2);
}

TEST_F(RunOutput, NorOnATerminal) {
    UniqueFd outer(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    ASSERT_TRUE(::grantpt(outer.get()) == 0 && ::unlockpt(outer.get()) == 0);
    std::array<char, 64> path{};
    ASSERT_EQ(::ptsname_r(outer.get(), path.data(), path.size()), 0);
    UniqueFd inner(::open(path.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    auto text = std::async(std::launch::async, [&] { return read_all(outer.get()); });
    run(2, write_many, inner.get(), inner.get());
    inner.reset();
    auto seen = text.get();
    std::erase(seen, '\r'); // the terminal's
    expect_many(seen, 2);
}

TEST_F(RunOutput, NorInAFile) {
    const auto path = folder_->path() + "/console";
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const UniqueFd again(::open(path.c_str(), O_WRONLY | O_CLOEXEC)); // "> log 2> log": two positions in it
    run(3, write_many, file.get(), again.get());
    expect_many(file_text(path), 3);
}

TEST_F(RunOutput, ThePipesFlagsAreNotChanged) {
    (void)run_with_pipe(1, [](unsigned) { write_all(1, ::fcntl(1, F_GETFL) == O_WRONLY ? "blocking\n" : "not\n"); });
    EXPECT_EQ(flags_ & O_NONBLOCK, 0);
    EXPECT_EQ(run_with_pipe(1, [](unsigned) { write_all(1, ::fcntl(1, F_GETFL) == O_WRONLY ? "yes" : "no"); }),
              "[n01 8] yes\n");
}

TEST_F(RunOutput, TheLauncherHasItsSay) {
    during_ = [](RankOutput& output) { output.say("rdma-nccl: hello"); };
    const auto text = run_with_pipe(2, write_many);
    const std::string own = "rdma-nccl: hello\n";
    const auto at = text.find(own);
    ASSERT_NE(at, std::string::npos);
    EXPECT_TRUE(at == 0 || text[at - 1] == '\n');
    expect_many(std::string(text).erase(at, own.size()), 2);
}

TEST_F(RunOutput, StdoutAndStderrGoTheirWays) {
    Pipe out;
    Pipe err;
    options_.prefix = "{stream}: ";
    run(
        1,
        [](unsigned) {
            write_all(1, "a\nno newline");
            write_all(2, "10%\r20%");
        },
        out.writer.get(), err.writer.get());
    out.writer.reset();
    err.writer.reset();
    EXPECT_EQ(read_all(out.reader.get()), "stdout: a\nstdout: no newline\n");
    EXPECT_EQ(read_all(err.reader.get()), "stderr: 10%\nstderr: 20%\n");
}

TEST_F(RunOutput, NoPrefixButWholeLines) {
    options_.prefix = "";
    EXPECT_EQ(run_with_pipe(1, [](unsigned) { write_all(1, "a\nb"); }), "a\nb\n");
}

TEST_F(RunOutput, TheTimeIsOfTheLine) {
    options_.prefix = "{time} ";
    const auto text = run_with_pipe(1, [](unsigned) { write_all(1, "x\n"); });
    EXPECT_EQ(text.size(), std::string("2026-11-22T10:00:00.123+00:00 x\n").size()) << text;
}

TEST_F(RunOutput, LongLines) {
    const std::string line((1 << 20) + 5, 'l');
    const auto text = run_with_pipe(2, [&](unsigned) { write_all(1, line); });
    std::map<std::string, std::string> of_rank;
    for (const auto& piece : lines_of(text)) {
        ASSERT_TRUE(piece.starts_with("[n01 8] ") || piece.starts_with("[n01 9] ")) << piece.substr(0, 40);
        of_rank[piece.substr(0, 8)] += piece.substr(8);
    }
    EXPECT_EQ(of_rank.size(), 2U);
    for (const auto& [prefix, whole] : of_rank) {
        EXPECT_TRUE(whole == line) << whole.size();
    }
}

TEST_F(RunOutput, Tee) {
    want_files();
    options_.tee.all = {true, true};
    expect_many(run_with_pipe(2, write_many), 2);
    for (unsigned rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(lines_of(log(rank, "stdout.log")).size(), many);
        EXPECT_TRUE(log(rank, "stdout.log").starts_with(std::to_string(rank) + " out 0"));
        EXPECT_TRUE(log(rank, "stderr.log").ends_with(std::string((many - 1) % 200, 'x') + "\n"));
    }
}

const std::string binary("\0\xff\r\r\n\n\x1b[0m no newline", 20);

TEST_F(RunOutput, FilesGetAllBytes) {
    want_files();
    options_.tee.all = {true, true};
    (void)run_with_pipe(1, [](unsigned) { write_all(1, binary); });
    EXPECT_EQ(log(0, "stdout.log"), binary);
}

TEST_F(RunOutput, Raw) {
    options_.raw = true;
    EXPECT_EQ(run_with_pipe(1, [](unsigned) { write_all(1, binary); }), binary);
    EXPECT_EQ(bytes_, 0U); // it went straight there
    want_files();
    options_.tee.all = {true, false};
    EXPECT_EQ(run_with_pipe(1, [](unsigned) { write_all(1, binary); }), binary);
    EXPECT_EQ(log(0, "stdout.log"), binary);
    EXPECT_EQ(bytes_, binary.size());
}

TEST_F(RunOutput, RedirectedStreamsGoStraightToTheirFiles) {
    want_files();
    options_.redirects.all.err = true;
    options_.redirects.of_rank[1] = {true, false};
    const auto text = run_with_pipe(2, [](unsigned) {
        write_all(1, "out\n");
        write_all(2, "a\nb\nc");
    });
    auto lines = lines_of(text);
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(lines, (std::vector<std::string>{"[n01 8] out", "[n01 9] a", "[n01 9] b", "[n01 9] c"}));
    EXPECT_EQ(log(0, "stderr.log"), "a\nb\nc");
    EXPECT_EQ(log(1, "stdout.log"), "out\n");
    EXPECT_EQ(last_errors_, (std::vector<std::vector<std::string>>(2, {"b", "c"})));
    EXPECT_EQ(bytes_, 18U);
    EXPECT_FALSE(std::filesystem::exists(attempt() + "/0/stdout.log"));
}

TEST_F(RunOutput, OnlySomeRanksAreShown) {
    want_files();
    options_.only = {1};
    options_.tee.all = {true, false};
    EXPECT_EQ(run_with_pipe(2,
                            [](unsigned) {
                                write_all(1, "out\n");
                                write_all(2, "err\n");
                            })
                  .size(),
              std::string("[n01 9] out\n[n01 9] err\n").size());
    EXPECT_EQ(log(0, "stdout.log"), "out\n");
    EXPECT_EQ(last_errors_.at(0), std::vector<std::string>{"err"});
}

TEST_F(RunOutput, AFileThatIsThereIsNotOverwritten) {
    want_files();
    options_.tee.all = {true, false};
    (void)run_with_pipe(1, [](unsigned) { write_all(1, "first\n"); });
    (void)run_with_pipe(1, [](unsigned) { write_all(1, "second\n"); });
    EXPECT_EQ(error_, "cannot create " + attempt() + "/0/stdout.log: File exists");
    EXPECT_EQ(log(0, "stdout.log"), "first\n");
}

const std::string much = std::string(64 * 1024 - 1, 'm') + "\n";

/// More than all pipes on the way hold.
void write_much(unsigned /*rank*/) {
    for (int i = 0; i < 128; ++i) {
        write_all(1, much);
    }
}

TEST_F(RunOutput, AConsoleThatTakesNothingHoldsUpTheRanksOnly) {
    const Pipe console;
    during_ = [](RankOutput& output) { output.say("not read"); };
    wait_ms_ = 200;
    const auto began = std::chrono::steady_clock::now();
    run(2, write_much, console.writer.get(), console.writer.get());
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(limit_ms));
    EXPECT_FALSE(done_);
    EXPECT_LT(bytes_, 4U << 20); // they wait
    for (const int status : statuses_) {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status;
    }
}

TEST_F(RunOutput, AFullStdoutDoesNotHoldUpStderr) {
    const Pipe out;
    Pipe err;
    wait_ms_ = 0;
    during_ = [&](RankOutput&) { (void)is_readable(err.reader.get(), limit_ms); };
    run(
        1,
        [](unsigned) {
            if (::fork() == 0) {
                write_much(0);
                ::_exit(0);
            }
            ::usleep(100'000);
            write_all(2, "err\n");
        },
        out.writer.get(), err.writer.get());
    err.writer.reset();
    EXPECT_EQ(read_all(err.reader.get()), "[n01 8] err\n");
}

TEST_F(RunOutput, AClosedConsoleIsPassedOn) {
    Pipe console;
    console.reader.reset();
    run(2, write_much, console.writer.get(), console.writer.get());
    EXPECT_TRUE(done_);
    for (const int status : statuses_) {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status;
    }
    EXPECT_EQ(problems_, (std::vector<std::string>{
                             "n01: stdout is closed (Broken pipe): what the ranks write reaches their files only"}));
}

TEST_F(RunOutput, FilesGoOnWithoutAConsole) {
    want_files();
    options_.tee.all = {true, true};
    Pipe console;
    console.reader.reset();
    run(2, write_much, console.writer.get(), console.writer.get());
    EXPECT_TRUE(done_);
    EXPECT_EQ(statuses_, std::vector<int>(2, 0));
    EXPECT_EQ(log(1, "stdout.log").size(), 8U << 20);
    EXPECT_EQ(problems_.size(), 1U);
}

TEST_F(RunOutput, AFullConsoleDiskHarmsNoRank) {
    want_files();
    options_.tee.all = {true, false};
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    run(2, write_much, full.get(), full.get());
    EXPECT_TRUE(done_);
    EXPECT_EQ(statuses_, std::vector<int>(2, 0));
    EXPECT_EQ(log(0, "stdout.log").size(), 8U << 20);
    EXPECT_EQ(problems_, (std::vector<std::string>{"n01: cannot write stdout: No space left on device; lines are "
                                                   "missing there as long as this lasts"}));
}

/// A file may not grow beyond this as long as it lives: a write gives EFBIG, as one to a full disk gives ENOSPC.
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t size) {
        (void)::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{size, before_.rlim_max};
        (void)::setrlimit(RLIMIT_FSIZE, &limit);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;
    FileSizeLimit(FileSizeLimit&&) = delete;
    FileSizeLimit& operator=(FileSizeLimit&&) = delete;
    ~FileSizeLimit() { (void)::setrlimit(RLIMIT_FSIZE, &before_); }

private:
    rlimit before_{};
};

TEST_F(RunOutput, AFullLogDiskHarmsNeitherRankNorConsole) {
    want_files();
    options_.tee.all = {true, false};
    std::string text;
    {
        const FileSizeLimit small(1000);
        text = run_with_pipe(2, write_many);
    }
    expect_many(text, 2);
    EXPECT_EQ(statuses_, std::vector<int>(2, 0));
    EXPECT_EQ(log(0, "stdout.log").size(), 1000U);
    ASSERT_EQ(problems_.size(), 2U);
    EXPECT_TRUE(problems_[0].ends_with("/stdout.log: File too large; what the rank writes is missing there as long as "
                                       "this lasts"))
        << problems_[0];
}

TEST_F(RunOutput, WritingResumesOnALineOfItsOwn) {
    const auto path = folder_->path() + "/console";
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    std::optional<FileSizeLimit> small(std::in_place, 20);
    during_ = [&](RankOutput& output) {
        output.say("0123456789 0123456789");
        for (int i = 0; i < 6000 && file_text(path).size() < 20; ++i) {
            ::usleep(10'000);
        }
        ::usleep(50'000);
        small.reset();
        output.say("next");
    };
    run(
        1, [](unsigned) {}, file.get(), file.get());
    EXPECT_EQ(file_text(path), "0123456789 012345678\nnext\n");
}

TEST_F(RunOutput, LastLinesOfStderr) {
    (void)run_with_pipe(2, [](unsigned rank) { write_all(2, "a\nb\n" + std::to_string(rank)); });
    EXPECT_EQ(last_errors_, (std::vector<std::vector<std::string>>{{"b", "0"}, {"b", "1"}}));
}

TEST_F(RunOutput, AChildThatHoldsThePipeIsWaitedFor) {
    const auto text = run_with_pipe(1, [](unsigned) {
        if (::fork() == 0) {
            ::usleep(200'000);
            write_all(1, "late\n");
            ::_exit(0);
        }
        write_all(1, "early\n");
    });
    EXPECT_EQ(text, "[n01 8] early\n[n01 8] late\n");
}

TEST_F(RunOutput, WithoutRanksItIsDoneAtOnce) {
    EXPECT_EQ(run_with_pipe(0, {}), "");
    EXPECT_TRUE(done_);
}

TEST_F(RunOutput, TooFewDescriptors) {
    {
        const test::DescriptorLimit few(test::DescriptorLimit::so_many_more(14));
        (void)run_with_pipe(8, write_many);
    }
    EXPECT_EQ(error_, "cannot open a pipe for a rank's output: Too many open files (limit: ulimit -n)");
}

TEST_F(RunOutput, AWrongPrefixIsNamed) {
    options_.prefix = "{jobid}";
    (void)run_with_pipe(1, write_many);
    EXPECT_NE(error_.find("{jobid} is unknown"), std::string::npos) << error_;
}

TEST_F(RunOutput, TheThreadTakesNoSignals) {
    std::string masks;
    during_ = [&](RankOutput&) {
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            const auto status = file_text(task.path().string() + "/status");
            const auto at = status.find("SigBlk:");
            masks += status.substr(at, status.find('\n', at) - at) + "\n";
        }
    };
    run(
        1, [](unsigned) {}, 1, 2);
    EXPECT_NE(masks.find("SigBlk:\tfffffff"), std::string::npos) << masks;
}

} // namespace

} // namespace rdma_nccl::run
