// SPDX-License-Identifier: Apache-2.0
#include "tools/run_spawn.h"

#include "lib/format.h"
#include "tools/print.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// A null-terminated array for execve(2), valid as long as `words`.
std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> result;
    result.reserve(words.size() + 1);
    for (const auto& word : words) {
        result.push_back(const_cast<char*>(word.c_str())); // NOLINT(cppcoreguidelines-pro-type-const-cast): C's argv
    }
    result.push_back(nullptr);
    return result;
}

/// A text file without "#!" is a shell script, as execvp(3) and every shell have it.
void execute_script(const Command& command, const std::vector<char*>& environment) {
    std::vector<std::string> words{"/bin/sh", command.file};
    words.insert(words.end(), command.arguments.begin() + 1, command.arguments.end());
    ::execve(words.front().c_str(), pointers(words).data(), environment.data());
}

bool place(int fd, int number) {
    return fd == number || ::dup2(fd, number) >= 0;
}

/// In the child. The launcher's other thread carries output and holds no lock that this needs: glibc gives a child its
/// allocator in order.
/// `arguments`, `environment`: made before the fork, so that the usual way allocates nothing.
[[noreturn]] void become_rank(const SpawnRequest& request, pid_t launcher, const std::vector<char*>& arguments,
                              const std::vector<char*>& environment) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launcher) {
        ::_exit(128 + SIGKILL); // it died before prctl(): nobody would ever send that signal
    }
    ::setpgid(0, 0);
    if (const auto bound = bind_self(request.binding); !bound) {
        print_error(format_text("warning: local rank {} {}", request.index, bound.error().message));
    }
    const bool streams_ok = place(request.stdin_fd, STDIN_FILENO) && place(request.stdout_fd, STDOUT_FILENO) &&
                            place(request.stderr_fd, STDERR_FILENO);
    request.files.restore();
    request.signals.restore();
    ExecFailure failure{request.index, errno};
    if (streams_ok) {
        ::execve(request.command.file.c_str(), arguments.data(), environment.data());
        failure.os_error = errno;
        if (failure.os_error == ENOEXEC) {
            execute_script(request.command, environment);
        }
    }
    [[maybe_unused]] const auto written = ::write(request.report_fd, &failure, sizeof(failure));
    ::_exit(exit_code_for_exec_error(failure.os_error));
}

} // namespace

FileLimit::FileLimit() {
    rlimit raised{};
    changed_ = ::getrlimit(RLIMIT_NOFILE, &old_) == 0;
    raised = {old_.rlim_max, old_.rlim_max};
    changed_ = changed_ && ::setrlimit(RLIMIT_NOFILE, &raised) == 0;
}

void FileLimit::restore() const {
    if (changed_) {
        ::setrlimit(RLIMIT_NOFILE, &old_);
    }
}

Result<pid_t> spawn(const SpawnRequest& request) {
    const pid_t launcher = ::getpid();
    const auto arguments = pointers(request.command.arguments);
    const auto environment = pointers(request.environment);
    const pid_t pid = ::fork();
    if (pid < 0) {
        return fail(
            format_text("cannot start a process: {} (limits: ulimit -u, pids.max of the cgroup)", ::strerror(errno)),
            errno);
    }
    if (pid == 0) {
        become_rank(request, launcher, arguments, environment);
    }
    // Parent and child both do it, so that the group is there for whichever comes first: a signal to it or the program.
    ::setpgid(pid, pid);
    return pid;
}

} // namespace rdma_nccl
