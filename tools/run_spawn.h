// SPDX-License-Identifier: Apache-2.0
// Starting one rank.
#pragma once

#include "lib/binding.h"
#include "lib/result.h"
#include "tools/run_program.h"
#include "tools/run_signals.h"

#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// Raises the soft limit of open files to the hard one: the launcher keeps a descriptor per rank.
class FileLimit {
public:
    FileLimit();
    /// The limit as it was: for a child about to execute a rank, whose program may use select(2).
    void restore() const;

private:
    rlimit old_{};
    bool changed_ = false;
};

/// Written to `report_fd` by a child that could not execute its program.
struct ExecFailure {
    std::size_t index = 0;
    int os_error = 0;
};

struct SpawnRequest {
    const Command& command;
    const std::vector<std::string>& environment; ///< "NAME=value"
    std::size_t index = 0;                       ///< comes back in ExecFailure
    int stdin_fd = 0;                            ///< becomes the rank's stdin
    int stdout_fd = 1;                           ///< and so on
    int stderr_fd = 2;
    int report_fd = -1; ///< close-on-exec
    const BlockedSignals& signals;
    const FileLimit& files;
    const Binding& binding; ///< before it executes; what cannot be done of it is said, and the rank runs
};

/// Forks and executes. The rank leads a process group of its own, and gets SIGKILL when the calling thread ends: the
/// caller must be the thread that lives as long as the process. Fails when there can be no more processes.
Result<pid_t> spawn(const SpawnRequest& request);

} // namespace rdma_nccl
