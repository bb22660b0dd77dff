// SPDX-License-Identifier: Apache-2.0
// Finds out where processes are, for the report of a job that hangs.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl::run {

/// Returns a command that shows the stacks of a process: py-spy for Python if it is installed, else gdb; nullopt if
/// there is neither. Both attach by ptrace(2). Yama (/proc/sys/kernel/yama/ptrace_scope 1) allows that to the
/// launcher's children if the rank has called prctl(PR_SET_PTRACER, LAUNCHER).
std::optional<std::vector<std::string>> stack_command(const SysRoot& root, pid_t pid, const Environment& environment);

struct ProcessStack {
    pid_t pid = 0;
    std::string kernel;  ///< "state D (disk sleep), waits in nvidia_ioctl": always set, needs no program
    std::string command; ///< program that showed the stacks, "gdb"; empty: none
    std::string text;    ///< its output, at most 64 KiB
    std::string problem; ///< "did not end within 20 s", "ended with code 1"; else empty
};

/// Returns what the kernel reports about a process: /proc/PID/status and wchan, and syscall and stack if they are
/// readable.
std::string kernel_state(const SysRoot& root, pid_t pid);

/// Reads the stacks of these processes, all at the same time, and returns them in the order of `pids`. Takes at most
/// `limit`, and then kills the programs that read them. May be called in a thread of its own, even if another thread
/// waits for all children.
std::vector<ProcessStack> read_stacks(const SysRoot& root, std::span<const pid_t> pids, const Environment& environment,
                                      std::chrono::milliseconds limit);

/// Returns the text for the launcher's stderr, with the programs' output after a bar. Ends with a newline.
std::string stack_text(const ProcessStack& stack, const std::string& rank);

} // namespace rdma_nccl::run
