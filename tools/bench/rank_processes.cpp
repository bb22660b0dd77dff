// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/rank_processes.h"

#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "tools/bench/rank/order.h"
#include "tools/common/print.h"
#include "tools/common/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl::bench {

namespace {

constexpr std::size_t longest_line = std::size_t{1} << 20;
constexpr int most_reads = 16; ///< in one call, so that a fast sender does not starve the others
constexpr int exit_not_started = 127;

std::string status_text(int status) {
    return WIFSIGNALED(status) ? "killed by " + signal_text(WTERMSIG(status))
                               : format_text("ended with exit code {}", WEXITSTATUS(status));
}

/// Runs in the child. Leaves only the standard streams and the channel open, and sets the run's variables.
void keep_channel(const RankStart& start, int channel) {
    if (channel != channel_fd) {
        (void)::dup2(channel, channel_fd);
    } else {
        (void)::fcntl(channel, F_SETFD, 0);
    }
    close_all_but(std::array{channel_fd});
    for (const auto& [name, value] : start.variables) {
        (void)::setenv(name.c_str(), value.c_str(), 1); // NOLINT(concurrency-mt-unsafe): one thread
    }
}

} // namespace

Result<void> RankProcesses::start(unsigned rank, const RankStart& start) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return os_failure("socketpair");
    }
    UniqueFd own(ends[0]);
    const UniqueFd theirs(ends[1]);
    // A killed worker leaves no rank behind (ends_with_parent), which would keep its GPU in use.
    ProcessStart process{.words = start.command, .file = start.command.front(), .input = -1, .output = STDERR_FILENO};
    process.prepare = [&] { keep_channel(start, theirs.get()); };
    process.on_failure = [&](int error) {
        print_error(
            format_text("{}: {}", start.command.front(), std::strerror(error))); // NOLINT(concurrency-mt-unsafe)
        return exit_not_started;
    };
    const auto pid = start_process(process);
    if (!pid) {
        return tl::unexpected(pid.error());
    }
    ranks_.push_back({start.run, rank, *pid, std::move(own)});
    ranks_.back().send({{"order", start.order}});
    return {};
}

void RankProcesses::Process::send(const Json& message) {
    unsent += message.dump() + "\n";
    flush();
}

/// Sends what the socket accepts now and keeps the rest. Ignores errors: receive() notices a closed socket.
void RankProcesses::Process::flush() {
    ssize_t count = 0;
    do {
        count = ::send(socket.get(), unsent.data(), unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        unsent.erase(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    } while (count > 0 && !unsent.empty());
}

std::vector<Json> RankProcesses::Process::receive() {
    std::array<char, 65536> bytes{};
    for (int i = 0; i < most_reads && !closed; ++i) {
        const auto count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        }
        received.append(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        closed = count <= 0 || received.size() - (received.rfind('\n') + 1) > longest_line; // npos + 1 is 0
    }
    std::vector<Json> objects;
    for (auto end = received.find('\n'); end != std::string::npos; end = received.find('\n')) {
        auto object = Json::parse(std::string_view(received).substr(0, end));
        received.erase(0, end + 1);
        if (object && object->is_object()) {
            objects.push_back(std::move(*object));
        }
    }
    return objects;
}

void RankProcesses::send(int run, unsigned rank, const Json& message) {
    for (auto& process : ranks_) {
        if (process.run == run && process.rank == rank) {
            process.send(message);
        }
    }
}

void RankProcesses::kill() {
    for (const auto& process : ranks_) {
        (void)::kill(process.pid, SIGKILL);
    }
}

void RankProcesses::add_to(std::vector<pollfd>& list) const {
    for (const auto& process : ranks_) {
        if (!process.closed) {
            list.push_back({process.socket.get(), POLLIN, 0});
        }
    }
}

bool RankProcesses::some_are_ending() const {
    return std::ranges::any_of(ranks_, &Process::closed);
}

std::vector<RankEvent> RankProcesses::take() {
    std::vector<RankEvent> events;
    for (auto process = ranks_.begin(); process != ranks_.end();) {
        // Check for its end before reading, so that nothing it sent is lost.
        int status = 0;
        const bool ended = ::waitpid(process->pid, &status, WNOHANG) == process->pid;
        for (auto& message : process->receive()) {
            events.push_back({process->run, process->rank, std::move(message)});
        }
        process->flush();
        if (!ended) {
            ++process;
            continue;
        }
        events.push_back(
            {process->run, process->rank, nullptr, WIFEXITED(status) && WEXITSTATUS(status) == 0, status_text(status)});
        process = ranks_.erase(process);
    }
    return events;
}

} // namespace rdma_nccl::bench
