// SPDX-License-Identifier: Apache-2.0
// Processes that the ranks left behind. A launcher is their subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)): whatever
// loses its parent below it, a daemon that forked twice too, becomes its child and is found here.
#pragma once

#include "lib/result.h"

#include <chrono>
#include <set>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// After SIGKILL a process is gone at once, or hangs in a driver or file system for who knows how long.
inline constexpr std::chrono::seconds kill_patience{10};

/// The children of the calling thread, which is the one that forks. Fails where /proc does not tell.
Result<std::vector<pid_t>> list_children();

/// Signals children, each of them once with each signal.
class ChildSweep {
public:
    /// The children to which `signal_number` was not sent before get it now; returns how many these were.
    Result<std::size_t> signal_new(int signal_number);

private:
    std::set<std::pair<pid_t, int>> done_;
};

} // namespace rdma_nccl
