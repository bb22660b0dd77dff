// SPDX-License-Identifier: Apache-2.0
#include "tools/common/process.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int exit_not_started = 127; // as in a shell

/// Returns a null-terminated array for execvpe(3), valid as long as `words`.
std::vector<char*> pointers(const std::vector<std::string>& words) {
    auto result = mapped(words, [](const std::string& word) {
        return const_cast<char*>(word.c_str()); // NOLINT(cppcoreguidelines-pro-type-const-cast): C's argv
    });
    result.push_back(nullptr);
    return result;
}

bool put_at(int fd, int number) {
    return fd == number || ::dup2(fd, number) >= 0;
}

bool place_streams(const ProcessStart& start) {
    const int input = start.input < 0 ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : start.input;
    return put_at(input, STDIN_FILENO) && put_at(start.output, STDOUT_FILENO) && put_at(start.errors, STDERR_FILENO);
}

/// Runs in the child. `arguments` and `environment` are made before the fork, so that this normally allocates nothing.
[[noreturn]] void become(const ProcessStart& start, pid_t parent, const std::vector<char*>& arguments,
                         const std::vector<char*>& environment) {
    if (start.ends_with_parent) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) {
            ::_exit(128 + SIGKILL); // the parent died before prctl(), so the signal would never come
        }
    }
    if (start.leads_group) {
        ::setpgid(0, 0);
    }
    if (start.prepare) {
        start.prepare();
    }
    if (place_streams(start)) {
        const char* const file = start.file.empty() ? arguments.front() : start.file.c_str();
        ::execvpe(file, arguments.data(), start.environment ? environment.data() : environ);
    }
    ::_exit(start.on_failure ? start.on_failure(errno) : exit_not_started);
}

/// Returns nullopt if the process does not end within a second; it may be stuck in a driver.
std::optional<int> reap(pid_t pid) {
    const auto deadline = Clock::now() + std::chrono::seconds(1);
    int status = 0;
    for (auto pause = std::chrono::microseconds(100);; pause = std::min(pause * 2, std::chrono::microseconds(10000))) {
        const pid_t ended = ::waitpid(pid, &status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) {
            return status;
        }
        if (Clock::now() >= deadline) {
            return std::nullopt;
        }
        std::this_thread::sleep_for(pause);
    }
}

} // namespace

Result<pid_t> start_process(const ProcessStart& start) {
    const pid_t parent = ::getpid();
    const auto arguments = pointers(start.words);
    const auto environment = start.environment ? pointers(*start.environment) : std::vector<char*>();
    const pid_t pid = ::fork();
    if (pid < 0) {
        return os_failure("fork");
    }
    if (pid == 0) {
        become(start, parent, arguments, environment);
    }
    if (start.leads_group) {
        // Parent and child both do this, so that the group exists for whichever comes first: a signal or the program.
        ::setpgid(pid, pid);
    }
    return pid;
}

Result<CapturedProcess> CapturedProcess::start(ProcessStart start, bool errors_too, std::size_t most) {
    auto pipe = open_pipe();
    if (!pipe) {
        return os_failure("pipe");
    }
    ::fcntl(pipe->reader.get(), F_SETFL, O_NONBLOCK);
    start.output = pipe->writer.get();
    start.errors = errors_too ? pipe->writer.get() : start.errors;
    return start_process(start).map([&](pid_t pid) { return CapturedProcess(pid, std::move(pipe->reader), most); });
}

/// Returns false at the end of the output.
bool CapturedProcess::read_some() {
    std::array<char, 65536> buffer; // NOLINT(*-member-init): filled first
    for (int i = 0; i < 16; ++i) {  // endless output must not keep the caller from its deadline
        const auto size = ::read(output_.get(), buffer.data(), buffer.size());
        if (size < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        if (size == 0) {
            return false;
        }
        text_.append(buffer.data(), std::min(static_cast<std::size_t>(size), most_ - text_.size()));
    }
    return true;
}

void CapturedProcess::read(std::span<CapturedProcess> processes, Time deadline, int interrupt) {
    for (;;) {
        std::vector<pollfd> waiting;
        for (const auto& process : processes) {
            if (process.output_) {
                waiting.push_back({process.output_.get(), POLLIN, 0});
            }
        }
        if (waiting.empty() || deadline <= Clock::now()) {
            return;
        }
        waiting.push_back({interrupt, POLLIN, 0}); // poll(2) passes over -1
        (void)poll_until(waiting, deadline);
        for (auto& process : processes) {
            if (process.output_ && !process.read_some()) {
                process.output_.reset();
            }
        }
        if (waiting.back().revents != 0) {
            return;
        }
    }
}

void CapturedProcess::signal(int number) const {
    if (pid_ > 0) {
        ::kill(pid_, number);
    }
}

std::optional<int> CapturedProcess::finish() {
    const pid_t pid = std::exchange(pid_, -1);
    auto status = pid < 0 || output_ ? std::nullopt : reap(pid);
    if (pid > 0 && !status) {
        ::kill(-pid, SIGKILL); // if it leads a group
        ::kill(pid, SIGKILL);
        (void)reap(pid);
    }
    return status;
}

std::string find_in_path(std::string_view name, std::string_view path) {
    for (const auto directory : split(path, ':')) {
        auto file = format_text("{}/{}", directory, name);
        if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return {};
}

int exit_code_for_exec_error(int os_error) {
    return os_error == ENOENT || os_error == ENOTDIR ? 127 : 126;
}

int exit_code_for_status(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string signal_text(int signal_number) {
    return format_text("signal {} ({})", signal_number, ::strsignal(signal_number)); // NOLINT(concurrency-mt-unsafe)
}

} // namespace rdma_nccl
