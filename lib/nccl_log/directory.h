// SPDX-License-Identifier: Apache-2.0
// The directory for the NCCL logs of a node's ranks when they are written to be judged (lib/plan/nccl_debug.h). All
// functions run as the user whose ranks write there.
#pragma once

#include "lib/nccl_log/log_evidence.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// Creates a directory in /tmp and returns its path, or an empty text on failure.
std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id);

/// Reads the logs in the directory, far enough into each to see its connections. Returns nullopt if there are none.
std::optional<LogEvidence> read_log_directory(const std::string& path);

/// Removes the directory and the logs in it.
void remove_log_directory(const std::string& path);

} // namespace rdma_nccl
