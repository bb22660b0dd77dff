// SPDX-License-Identifier: Apache-2.0
#include "tools/run_stacks.h"

#include "lib/format.h"
#include "lib/text.h"
#include "lib/unique_fd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_text = 64 << 10;

std::optional<std::string> find_in_path(const std::string& name, const Environment& environment) {
    const auto path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    for (const auto directory : split(path, ':')) {
        auto file = format_text("{}/{}", directory, name);
        if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0) {
            return file;
        }
    }
    return std::nullopt;
}

bool is_python(const Root& root, pid_t pid) {
    // The name of the program, as a script that a #! line starts has its own in comm.
    std::array<char, 4096> target{};
    const auto link = format_text("{}/proc/{}/exe", root.path() == "/" ? "" : root.path(), pid);
    const auto size = ::readlink(link.c_str(), target.data(), target.size());
    return size > 0 && base_name({target.data(), static_cast<std::size_t>(size)}).starts_with("python");
}

/// A program that shows a stack, and what it has said.
struct Reader {
    pid_t pid = -1;
    UniqueFd output;
    std::string text;
};

/// Between fork and exec: another thread may have had any lock.
[[noreturn]] void become(char* const* arguments, char* const* environment, int output, pid_t launcher) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::setpgid(0, 0);
    const int null = ::open("/dev/null", O_RDONLY);
    if (::getppid() == launcher && null >= 0 && ::dup2(null, 0) == 0 && ::dup2(output, 1) == 1 &&
        ::dup2(output, 2) == 2) {
        ::execve(arguments[0], arguments, environment);
    }
    ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> result;
    result.reserve(words.size() + 1);
    for (auto& word : words) {
        result.push_back(word.data());
    }
    result.push_back(nullptr);
    return result;
}

Reader start(std::vector<std::string> command, const Environment& environment) {
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment.all()) {
        variables.push_back(format_text("{}={}", name, value));
    }
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return {};
    }
    Reader reader;
    reader.output.reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    ::fcntl(reader.output.get(), F_SETFL, O_NONBLOCK);
    const auto arguments = pointers(command);
    const auto entries = pointers(variables);
    const pid_t launcher = ::getpid();
    reader.pid = ::fork();
    if (reader.pid == 0) {
        become(arguments.data(), entries.data(), theirs.get(), launcher);
    }
    if (reader.pid < 0) {
        reader.output.reset();
    }
    return reader;
}

/// Some of what there is; false at the end.
bool take_output(Reader& reader) {
    std::array<char, 4096> buffer; // NOLINT(*-member-init): filled first
    for (int i = 0; i < 16; ++i) { // one that writes without end must not keep us from the clock
        const auto size = ::read(reader.output.get(), buffer.data(), buffer.size());
        if (size < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        if (size == 0) {
            return false;
        }
        const auto room = most_text - std::min(most_text, reader.text.size());
        reader.text.append(buffer.data(), std::min(static_cast<std::size_t>(size), room));
    }
    return true;
}

/// Until all have said what they have to, or it is time.
void take_outputs(std::vector<Reader>& readers, Clock::time_point deadline) {
    for (;;) {
        std::vector<pollfd> waiting;
        for (const auto& reader : readers) {
            if (reader.output) {
                waiting.push_back({reader.output.get(), POLLIN, 0});
            }
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (waiting.empty() || left <= 0) {
            return;
        }
        (void)::poll(waiting.data(), waiting.size(), static_cast<int>(std::min<decltype(left)>(left, 60000)));
        for (auto& reader : readers) {
            if (reader.output && !take_output(reader)) {
                reader.output.reset();
            }
        }
    }
}

/// How it ended, where that is worth a word. One that has closed its output ends at once; one that another thread has
/// waited for has ended.
std::string finish(Reader& reader, std::chrono::milliseconds limit) {
    if (reader.pid < 0) {
        return "could not be started";
    }
    const bool late = static_cast<bool>(reader.output);
    if (late) {
        ::kill(-reader.pid, SIGKILL);
        ::kill(reader.pid, SIGKILL); // before it was the leader of a group
    }
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 100 && ended == 0; ++i) { // not for ever: it may be stuck in the process that it looks at
        ended = ::waitpid(reader.pid, &status, WNOHANG);
        if (ended == 0) {
            ::usleep(10000);
        }
    }
    if (late) {
        return format_text("did not end within {:g} s", std::chrono::duration<double>(limit).count());
    }
    if (ended == reader.pid && status != 0) {
        return WIFEXITED(status) ? format_text("ended with code {}", WEXITSTATUS(status))
                                 : format_text("ended by signal {}", WTERMSIG(status));
    }
    return {};
}

std::string field_of(std::string_view status, std::string_view name) {
    for (const auto line : split(status, '\n')) {
        const auto [key, value] = split_once(line, ':');
        if (key == name) {
            return printable(trim(value.value_or("")));
        }
    }
    return {};
}

} // namespace

std::optional<std::vector<std::string>> stack_command(const Root& root, pid_t pid, const Environment& environment) {
    const auto number = std::to_string(pid);
    if (is_python(root, pid)) {
        if (const auto program = find_in_path("py-spy", environment)) {
            return std::vector<std::string>{*program, "dump", "--pid", number};
        }
    }
    if (const auto program = find_in_path("gdb", environment)) {
        return std::vector<std::string>{*program,
                                        "-p",
                                        number,
                                        "-batch",
                                        "-nx",
                                        "-ex",
                                        "set pagination off",
                                        "-ex",
                                        "set debuginfod enabled off",
                                        "-ex",
                                        "thread apply all -ascending bt 64"};
    }
    return std::nullopt;
}

std::string kernel_state(const Root& root, pid_t pid) {
    const auto read = [&](const char* name) {
        return root.read(format_text("/proc/{}/{}", pid, name), 16 << 10).value_or("");
    };
    const auto status = read("status");
    if (status.empty()) {
        return "is gone";
    }
    auto text = format_text("state {}, {} threads", field_of(status, "State"), field_of(status, "Threads"));
    if (const auto wchan = read("wchan"); !wchan.empty() && wchan != "0") {
        text += ", waits in " + printable(wchan);
    }
    if (const auto call = read("syscall"); !call.empty() && call != "running") {
        text += ", system call " + printable(split(call, ' ').front());
    }
    std::string frames;
    const auto stack = read("stack"); // for root alone
    for (const auto line : split(stack, '\n')) {
        const auto words = split_words(line);
        frames += words.empty() ? "" : (frames.empty() ? "" : " < ") + printable(words.back());
    }
    return frames.empty() ? text : text + ", kernel stack " + frames;
}

std::vector<ProcessStack> read_stacks(const Root& root, std::span<const pid_t> pids, const Environment& environment,
                                      std::chrono::milliseconds limit) {
    const auto deadline = Clock::now() + limit;
    std::vector<ProcessStack> stacks;
    std::vector<Reader> readers;
    for (const pid_t pid : pids) {
        auto& stack = stacks.emplace_back(ProcessStack{pid, kernel_state(root, pid), "", "", ""});
        auto command = stack_command(root, pid, environment);
        if (command) {
            stack.command = base_name(command->front());
        }
        readers.push_back(command ? start(std::move(*command), environment) : Reader());
    }
    take_outputs(readers, deadline);
    for (std::size_t i = 0; i < stacks.size(); ++i) {
        if (!stacks[i].command.empty()) {
            stacks[i].problem = finish(readers[i], limit);
            stacks[i].text = std::move(readers[i].text);
        }
    }
    return stacks;
}

std::string stack_text(const ProcessStack& stack, const std::string& rank) {
    auto text = format_text("{}, pid {}: {}\n", rank, stack.pid, stack.kernel);
    if (stack.command.empty()) {
        return text + "  no stack: neither py-spy nor gdb is in PATH\n";
    }
    if (!stack.problem.empty()) {
        text += format_text("  {} {}\n", stack.command, stack.problem);
    }
    for (const auto line : split(trim(stack.text), '\n')) {
        std::string plain;
        for (const char c : line) {
            plain += c == '\t' ? ' ' : c;
        }
        text += format_text("    | {}\n", printable(plain, 400));
    }
    return text;
}

} // namespace rdma_nccl
