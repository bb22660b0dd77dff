// SPDX-License-Identifier: Apache-2.0
// Asks Slurm by its command scontrol.
#pragma once

#include "lib/base/result.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Runs `command` without a shell and returns its output, at most `most` bytes. The first word is an absolute path, or
/// is searched for in PATH and Slurm's usual directories; `if_missing`: what to do if it is nowhere. Fails if it cannot
/// be started, exits with an error, or runs longer than `limit`.
Result<std::string> run_scontrol(const std::vector<std::string>& command, std::chrono::milliseconds limit,
                                 std::size_t most = std::size_t{64} << 10,
                                 std::string_view if_missing = "add its directory to it");

/// Returns what `scontrol show topology` prints: of the default topology, where there are several. Fails if Slurm does
/// not answer within 20 s.
Result<std::string> ask_topology();

} // namespace rdma_nccl
