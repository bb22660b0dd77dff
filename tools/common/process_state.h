// SPDX-License-Identifier: Apache-2.0
// What the kernel says of processes, without a debugger: proc(5).
#pragma once

#include "lib/sys/sysroot.h"

#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// Returns a field of /proc/PID/status, "State" or "NSpid"; empty if there is none.
std::string process_field(const SysRoot& root, pid_t pid, std::string_view name);

/// Returns what the kernel reports about a process: /proc/PID/status and wchan, and syscall and stack if they are
/// readable.
std::string kernel_state(const SysRoot& root, pid_t pid);

/// Returns the processes that have this id in their own PID namespace: several if there are containers.
std::vector<pid_t> processes_with_own_id(const SysRoot& root, pid_t own_id);

} // namespace rdma_nccl
