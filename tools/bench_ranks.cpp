// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_ranks.h"

#include "lib/child.h"
#include "lib/format.h"
#include "tools/bench_channel.h"
#include "tools/print.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

constexpr std::size_t longest_line = std::size_t{1} << 20;
constexpr int exit_not_started = 127;

std::string words_of_status(int status) {
    if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        return format_text("killed by signal {} ({})", number, ::strsignal(number)); // NOLINT(concurrency-mt-unsafe)
    }
    return format_text("ended with exit code {}", WEXITSTATUS(status));
}

/// In the child.
[[noreturn]] void become(const BenchRankStart& start, int channel, pid_t parent) {
    // A member that is killed leaves no rank behind: a GPU would stay in use.
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
        ::_exit(exit_not_started);
    }
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)::dup2(null, STDIN_FILENO);
    (void)::dup2(STDERR_FILENO, STDOUT_FILENO);
    if (channel != bench_channel_fd) {
        (void)::dup2(channel, bench_channel_fd);
    } else {
        (void)::fcntl(channel, F_SETFD, 0);
    }
    const std::array<int, 1> keep = {bench_channel_fd};
    close_all_but(keep);
    for (const auto& [name, value] : start.variables) {
        (void)::setenv(name.c_str(), value.c_str(), 1); // NOLINT(concurrency-mt-unsafe): one thread
    }
    std::vector<char*> words;
    for (const auto& word : start.command) {
        words.push_back(const_cast<char*>(word.c_str())); // execv(3) does not change them
    }
    words.push_back(nullptr);
    (void)::execv(words.front(), words.data());
    print_error(format_text("{}: {}", start.command.front(), std::strerror(errno))); // NOLINT(concurrency-mt-unsafe)
    ::_exit(exit_not_started);
}

std::string line_of(const nlohmann::json& message) {
    return message.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

} // namespace

Result<void> BenchRanks::start(unsigned rank, const BenchRankStart& start) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return fail(format_text("socketpair: {}", std::strerror(errno)), errno); // NOLINT(concurrency-mt-unsafe)
    }
    UniqueFd own(ends[0]);
    const UniqueFd theirs(ends[1]);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
        become(start, theirs.get(), parent);
    }
    if (pid < 0) {
        return fail(format_text("fork: {}", std::strerror(errno)), errno); // NOLINT(concurrency-mt-unsafe)
    }
    ranks_.push_back({start.run, rank, pid, LineSocket(std::move(own), longest_line)});
    (void)ranks_.back().socket.send(line_of({{"order", start.order}}));
    return {};
}

void BenchRanks::tell(int run, unsigned rank, const nlohmann::json& message) {
    for (auto& process : ranks_) {
        if (process.run == run && process.rank == rank) {
            (void)process.socket.send(line_of(message));
        }
    }
}

void BenchRanks::kill() {
    for (const auto& process : ranks_) {
        (void)::kill(process.pid, SIGKILL);
    }
}

std::vector<int> BenchRanks::fds() const {
    std::vector<int> fds;
    for (const auto& process : ranks_) {
        if (!process.closed) {
            fds.push_back(process.socket.fd());
        }
    }
    return fds;
}

bool BenchRanks::some_are_ending() const {
    return std::ranges::any_of(ranks_, [](const auto& process) { return process.closed; });
}

std::vector<BenchRankEvent> BenchRanks::take() {
    std::vector<BenchRankEvent> events;
    for (auto process = ranks_.begin(); process != ranks_.end();) {
        // Its end is looked for before its words: nothing that it said is lost.
        int status = 0;
        const bool ended = ::waitpid(process->pid, &status, WNOHANG) == process->pid;
        if (!process->closed && !process->socket.receive()) {
            process->closed = true;
        }
        (void)process->socket.flush();
        while (const auto line = process->socket.next_line()) {
            auto says = nlohmann::json::parse(*line, nullptr, false);
            if (says.is_object()) {
                events.push_back({process->run, process->rank, std::move(says), false, {}});
            }
        }
        if (!ended) {
            ++process;
            continue;
        }
        events.push_back({process->run, process->rank, nullptr, WIFEXITED(status) && WEXITSTATUS(status) == 0,
                          words_of_status(status)});
        process = ranks_.erase(process);
    }
    return events;
}

} // namespace rdma_nccl
