// SPDX-License-Identifier: Apache-2.0
// Starting scontrol: slurmd gives its programs next to no environment, and a controller that is away must not hold us
// up.
#include "lib/format.h"
#include "lib/text.h"
#include "lib/unique_fd.h"
#include "tools/check_drain.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        return name;
    }
    const char* const path = ::getenv("PATH");
    const auto directories =
        format_text("{}:/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin", path != nullptr ? path : "");
    for (const auto directory : split(directories, ':')) {
        auto file = format_text("{}/{}", directory, name);
        if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return {};
}

[[noreturn]] void become(const char* file, char* const* arguments, int output) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0 && ::dup2(null, 0) == 0 && ::dup2(output, 1) == 1 && ::dup2(output, 2) == 2) {
        ::execv(file, arguments);
    }
    ::_exit(127);
}

/// Until its end or `deadline`; false then.
bool take_output(int fd, Clock::time_point deadline, std::string& text) {
    constexpr std::size_t most = 64 << 10;
    std::array<char, 4096> buffer{};
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
        pollfd waiting{fd, POLLIN, 0};
        if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) == 0) {
            return false;
        }
        const auto size = ::read(fd, buffer.data(), buffer.size());
        if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) {
            return true;
        }
        const auto room = most - std::min(most, text.size());
        text.append(buffer.data(), size > 0 ? std::min(static_cast<std::size_t>(size), room) : 0);
    }
}

} // namespace

Result<std::string> run_scontrol(const std::vector<std::string>& command, milliseconds limit) {
    if (limit <= milliseconds(0)) {
        return fail("no time is left to start scontrol: the check took it (--limit)");
    }
    const auto file = find_program(command.front());
    if (file.empty()) {
        return fail("no scontrol in PATH; name it in the file of expectations: scontrol = /PATH/scontrol");
    }
    std::vector<std::string> words = command;
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (auto& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail(format_text("pipe: {}", std::strerror(errno)), errno);
    }
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) {
        return fail(format_text("fork: {}", std::strerror(errno)), errno);
    }
    if (pid == 0) {
        become(file.c_str(), arguments.data(), writer.get());
    }
    writer.reset();
    std::string text;
    const bool ended = take_output(reader.get(), Clock::now() + limit, text);
    if (!ended) {
        (void)::kill(pid, SIGKILL);
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!ended) {
        return fail(format_text("{} did not end within {:.2g} s", file, static_cast<double>(limit.count()) / 1000));
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return fail(format_text("{} {}: {}", file, command.size() > 1 ? command[1] : "", printable(trim(text), 300)));
    }
    return text;
}

} // namespace rdma_nccl
