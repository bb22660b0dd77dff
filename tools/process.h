// SPDX-License-Identifier: Apache-2.0
// Programs that run in a child of this process: how they start, what they say and how they end.
#pragma once

#include "lib/result.h"
#include "lib/unique_fd.h"

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
    std::vector<std::string> words;                        ///< arguments, with the program's name as the first
    std::string file = {};                                 ///< that is executed; empty: the first word, found by PATH
    std::optional<std::vector<std::string>> environment{}; ///< "NAME=value"; absent: this process's own
    int input = STDIN_FILENO;                              ///< becomes its standard input; -1: /dev/null
    int output = STDOUT_FILENO;                            ///< and so on
    int errors = STDERR_FILENO;
    bool ends_with_parent = true; ///< gets SIGKILL when the thread that starts it ends
    bool leads_group = false;     ///< a process group of its own
    /// In the child, before the program; glibc gives a child its allocator in order, but no other lock.
    std::function<void()> prepare = {};
    /// In the child when it cannot execute the program: says so, and gives the code to exit with, else 127.
    std::function<int(int os_error)> on_failure = {};
};

/// Forks and executes; a text file without "#!" is a shell script, as execvp(3) and every shell have it. Fails when
/// there can be no more processes.
Result<pid_t> start_process(const ProcessStart& start);

/// A program whose output is read, with a limit of time.
class CapturedProcess {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// Keeps `most` bytes of what it writes to standard output; `errors_too`: also to standard error.
    static Result<CapturedProcess> start(ProcessStart start, bool errors_too, std::size_t most = 64 << 10);
    CapturedProcess(CapturedProcess&& other) noexcept
        : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)), most_(other.most_),
          text_(std::move(other.text_)) {}
    CapturedProcess(const CapturedProcess&) = delete;
    CapturedProcess& operator=(const CapturedProcess&) = delete;
    CapturedProcess& operator=(CapturedProcess&&) = delete;
    ~CapturedProcess() { (void)finish(); }

    /// Reads until all of them have closed their output, as a program does when it ends, or it is time.
    static void read(std::span<CapturedProcess> processes, Time deadline);
    [[nodiscard]] const std::string& text() const { return text_; }

    /// Its status of waitpid(2); 0 where another thread has waited for it. nullopt: it has not closed its output, and
    /// is killed now.
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

/// The first executable file of this name in the absolute directories of "DIR:DIR..."; empty: there is none.
std::string find_in_path(std::string_view name, std::string_view path);

/// The code a shell gives for a status of waitpid(2): the program's own, or 128 + n when signal n ended it.
int exit_code_for_status(int status);

/// "signal 9 (Killed)"
std::string signal_text(int signal_number);

} // namespace rdma_nccl
