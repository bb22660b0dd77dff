// SPDX-License-Identifier: Apache-2.0
// Runs programs in child processes: how they start, what they print and how they end.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rdma_nccl {

struct ProcessStart {
    std::vector<std::string> words;                        ///< arguments, starting with the program's name
    std::string file = {};                                 ///< to execute; empty: the first word, searched for in PATH
    std::optional<std::vector<std::string>> environment{}; ///< "NAME=value"; absent: this process's own
    int input = STDIN_FILENO;                              ///< becomes its standard input; -1: /dev/null
    int output = STDOUT_FILENO;                            ///< becomes its standard output; `errors` likewise
    int errors = STDERR_FILENO;
    bool ends_with_parent = true; ///< gets SIGKILL when the thread that started it ends
    bool leads_group = false;     ///< in a process group of its own
    /// Runs in the child before the program. After fork(), glibc makes its allocator usable, but no other lock.
    std::function<void()> prepare = {};
    /// Runs in the child if it cannot execute the program: reports it and returns the exit code; absent: 127.
    std::function<int(int os_error)> on_failure = {};
};

/// Forks and executes. Runs a text file without "#!" as a shell script, like execvp(3) and shells do. Fails if no more
/// processes can be created.
Result<pid_t> start_process(const ProcessStart& start);

/// A program whose output is read, with a time limit.
class CapturedProcess {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// Keeps the first `most` bytes of standard output; `errors_too`: also of standard error.
    static Result<CapturedProcess> start(ProcessStart start, bool errors_too, std::size_t most = 64 << 10);
    CapturedProcess(CapturedProcess&& other) noexcept
        : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)), most_(other.most_),
          text_(std::move(other.text_)) {}
    CapturedProcess(const CapturedProcess&) = delete;
    CapturedProcess& operator=(const CapturedProcess&) = delete;
    CapturedProcess& operator=(CapturedProcess&&) = delete;
    ~CapturedProcess() { (void)finish(); }

    /// Reads until all programs have closed their output, which they do when they end, until the deadline, or until
    /// there is something to be read from `interrupt`, a descriptor; -1: none.
    static void read(std::span<CapturedProcess> processes, Time deadline, int interrupt = -1);
    [[nodiscard]] bool has_closed_output() const { return !output_; }
    void signal(int number) const;
    [[nodiscard]] const std::string& text() const { return text_; }

    /// Returns the status of waitpid(2), or 0 if another thread has waited for it. Kills the program and returns
    /// nullopt if it has not closed its output, or does not end within a second after that.
    std::optional<int> finish();

private:
    CapturedProcess(pid_t pid, UniqueFd output, std::size_t most)
        : pid_(pid), output_(std::move(output)), most_(most) {}
    [[nodiscard]] bool read_some();

    pid_t pid_; ///< -1: has ended
    UniqueFd output_;
    std::size_t most_;
    std::string text_;
};

/// Returns the first executable file of this name in the absolute directories of "DIR:DIR..."; empty if there is none.
std::string find_in_path(std::string_view name, std::string_view path);

/// Returns a shell's exit code for a status of waitpid(2): the program's own, or 128 + n if signal n ended it.
int exit_code_for_status(int status);

/// Returns a shell's exit code for a program that cannot be executed: 127 if it does not exist, else 126.
int exit_code_for_exec_error(int os_error);

/// Returns "signal 9 (Killed)".
std::string signal_text(int signal_number);

} // namespace rdma_nccl
