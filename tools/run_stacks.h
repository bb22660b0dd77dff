// SPDX-License-Identifier: Apache-2.0
// Where processes are: for the report of a job that hangs.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// A program that shows the stacks of a process: py-spy for Python where it is installed, else gdb; absent without
/// both. Both attach by ptrace(2), which Yama (/proc/sys/kernel/yama/ptrace_scope 1) allows to the launcher's children
/// where the rank has called prctl(PR_SET_PTRACER, LAUNCHER).
std::optional<std::vector<std::string>> stack_command(const Root& root, pid_t pid, const Environment& environment);

struct ProcessStack {
    pid_t pid = 0;
    std::string kernel;  ///< "state D (disk sleep), waits in nvidia_ioctl": always there, needs no program
    std::string command; ///< that told the stacks, "gdb"; empty: there is none
    std::string text;    ///< its output, at most 64 KiB of it
    std::string problem; ///< "did not end within 20 s", "ended with code 1"; else empty
};

/// What the kernel tells of a process: /proc/PID/status, wchan, and where it may be read syscall and stack.
std::string kernel_state(const Root& root, pid_t pid);

/// The stacks of these processes, one after the other in `pids`' order, their programs all at the same time. Takes at
/// most `limit`, and then kills those programs. May be called in a thread of its own, also where another one waits for
/// all children.
std::vector<ProcessStack> read_stacks(const Root& root, std::span<const pid_t> pids, const Environment& environment,
                                      std::chrono::milliseconds limit);

/// For the launcher's stderr, with what came from programs behind a bar. Ends with a newline.
std::string stack_text(const ProcessStack& stack, const std::string& rank);

} // namespace rdma_nccl
