// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/stacks.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "tools/common/process.h"

#include <algorithm>
#include <sys/wait.h>

namespace rdma_nccl::run {

namespace {

bool is_python(const SysRoot& root, pid_t pid) {
    // The name of the executable, because comm is the script's name if a #! line started it.
    const auto program = root.directory(format_text("/proc/{}", pid)).and_then([](const Directory& process) {
        return process.read_link("exe");
    });
    return program && base_name(*program).starts_with("python");
}

Result<CapturedProcess> start(std::vector<std::string> command, const Environment& environment) {
    ProcessStart start{.words = std::move(command),
                       .environment =
                           mapped(environment.all(), [](const auto& one) { return one.first + "=" + one.second; }),
                       .input = -1};
    start.leads_group = true;
    start.prepare = [] {
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
    };
    return CapturedProcess::start(std::move(start), true);
}

/// Describes how the reader ended; empty if it succeeded.
std::string finish(CapturedProcess& reader, std::chrono::milliseconds limit) {
    const auto status = reader.finish();
    if (!status) {
        return format_text("did not end within {:g} s", std::chrono::duration<double>(limit).count());
    }
    if (*status == 0) {
        return {};
    }
    return WIFEXITED(*status) ? format_text("ended with code {}", WEXITSTATUS(*status))
                              : format_text("ended by signal {}", WTERMSIG(*status));
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

std::optional<std::vector<std::string>> stack_command(const SysRoot& root, pid_t pid, const Environment& environment) {
    const auto number = std::to_string(pid);
    const auto path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    if (is_python(root, pid)) {
        if (const auto program = find_in_path("py-spy", path); !program.empty()) {
            return std::vector<std::string>{program, "dump", "--pid", number};
        }
    }
    if (const auto program = find_in_path("gdb", path); !program.empty()) {
        std::vector<std::string> command{program, "-p", number, "-batch", "-nx"};
        for (const char* const order :
             {"set pagination off", "set debuginfod enabled off", "thread apply all -ascending bt 64"}) {
            command.insert(command.end(), {"-ex", order});
        }
        return command;
    }
    return std::nullopt;
}

std::string kernel_state(const SysRoot& root, pid_t pid) {
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
    const auto stack = read("stack"); // only root may read it
    for (const auto line : split(stack, '\n')) {
        const auto words = split_words(line);
        frames += words.empty() ? "" : (frames.empty() ? "" : " < ") + printable(words.back());
    }
    return frames.empty() ? text : text + ", kernel stack " + frames;
}

std::vector<ProcessStack> read_stacks(const SysRoot& root, std::span<const pid_t> pids, const Environment& environment,
                                      std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::vector<ProcessStack> stacks;
    std::vector<std::size_t> stack_of; // by reader: index of its stack
    std::vector<CapturedProcess> readers;
    for (const pid_t pid : pids) {
        auto& stack = stacks.emplace_back(ProcessStack{pid, kernel_state(root, pid), "", "", ""});
        auto command = stack_command(root, pid, environment);
        if (!command) {
            continue;
        }
        stack.command = base_name(command->front());
        if (auto reader = start(std::move(*command), environment)) {
            readers.push_back(std::move(*reader));
            stack_of.push_back(stacks.size() - 1);
        } else {
            stack.problem = "could not be started";
        }
    }
    CapturedProcess::read(readers, deadline);
    for (std::size_t i = 0; i < readers.size(); ++i) {
        auto& stack = stacks[stack_of[i]];
        stack.problem = finish(readers[i], limit);
        stack.text = readers[i].text();
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
        std::string plain(line);
        std::ranges::replace(plain, '\t', ' ');
        text += format_text("    | {}\n", printable(plain, 400));
    }
    return text;
}

} // namespace rdma_nccl::run
