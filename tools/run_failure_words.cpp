// SPDX-License-Identifier: Apache-2.0
// How a rank ended and what to do about it, in words.
#include "lib/format.h"
#include "lib/text.h"
#include "tools/run_message.h"
#include "tools/run_report.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace rdma_nccl {

namespace {

struct SignalAdvice {
    int signal;
    std::string_view text;
};

constexpr std::string_view more_memory = "give the job more memory (--mem, --mem-per-gpu), or use less of it: fewer "
                                         "workers of data loaders, smaller batches on the host";

constexpr std::array<SignalAdvice, 7> signal_advice{{
    {SIGKILL, "somebody or something sent it: a person, Slurm at a limit (sacct -j), or the kernel for want of memory "
              "on the node (dmesg)"},
    {SIGBUS, "often a full /dev/shm (df /dev/shm; in a container: a larger one), or a file that became shorter while "
             "it was mapped"},
    {SIGILL, "the program or a library of it was compiled for another CPU"},
    {SIGSYS, "a system call that is forbidden here (seccomp, of the container)"},
    {SIGXCPU, "the limit of CPU time (ulimit -t)"},
    {SIGXFSZ, "the limit of the size of a file (ulimit -f)"},
    {SIGPIPE, "it wrote to a pipe or connection that nobody reads any more"},
}};

std::string_view advice_for_signal(int signal) {
    for (const auto& [number, text] : signal_advice) {
        if (number == signal) {
            return text;
        }
    }
    return {};
}

std::string_view advice_for_exec_error(int error) {
    switch (error) {
    case ENOENT:
        return "the interpreter named in its first line or its ELF header is not here";
    case EACCES:
    case EPERM:
        return "make it executable (chmod +x), and see that its file system is not mounted noexec";
    case ENOEXEC:
        return "it is no program for this CPU";
    case E2BIG:
        return "arguments and environment are too long together (ulimit -s)";
    default:
        return {};
    }
}

/// Codes of a shell (POSIX, 2.8.2): the rank was one, or passed such a code on.
std::string advice_for_code(int code) {
    if (code == 126) {
        return "a shell found a command that it could not execute (chmod +x)";
    }
    if (code == 127) {
        return "a shell did not find a command (PATH on this node), or a library is missing";
    }
    const int signal = code - 128;
    if (signal < 1 || signal > SIGRTMAX) {
        return {};
    }
    const auto advice = advice_for_signal(signal);
    return format_text("the code that a shell gives for {}{}{}", signal_text(signal), advice.empty() ? "" : ": ",
                       advice);
}

} // namespace

std::string describe_end(const RankFailure& failure) {
    std::string text;
    if (failure.exec_error) {
        return format_text("cannot execute {}: {}", printable(failure.program, 200), ::strerror(*failure.exec_error));
    }
    if (failure.signal) {
        text = format_text("killed by {}{}", signal_text(*failure.signal), failure.core_dumped ? ", core dumped" : "");
    } else {
        text = format_text("exited with code {}", failure.code);
    }
    if (failure.out_of_memory) {
        text += failure.signal == SIGKILL ? ", out of memory in its cgroup"
                                          : ", after the kernel killed for want of memory in its cgroup";
    }
    return text;
}

std::string advice_for(const RankFailure& failure) {
    if (failure.exec_error) {
        return std::string(advice_for_exec_error(*failure.exec_error));
    }
    if (failure.out_of_memory) {
        return std::string(more_memory);
    }
    return failure.signal ? std::string(advice_for_signal(*failure.signal)) : advice_for_code(failure.code);
}

} // namespace rdma_nccl
