// SPDX-License-Identifier: Apache-2.0
// Asks Slurm by its command scontrol.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns the path of a command of Slurm, which is searched for in PATH and Slurm's usual directories; empty if it is
/// nowhere.
std::string find_slurms_command(std::string_view name);

/// Runs `command` without a shell and returns its output, at most `most` bytes. The first word is an absolute path, or
/// a name for find_slurms_command(); `if_missing`: what to do if it is nowhere. Fails if it cannot be started, exits
/// with an error, or runs longer than `limit`.
Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                 std::size_t most = std::size_t{64} << 10,
                                 std::string_view if_missing = "add its directory to it");

/// Returns what `scontrol show topology` prints: of the default topology, where there are several. In the environment
/// of a job its own cluster is asked, elsewhere the one that SLURM_CLUSTERS names. Fails if Slurm does not answer
/// within 20 s.
Result<std::string> ask_topology(const Environment& environment);

} // namespace rdma_nccl
