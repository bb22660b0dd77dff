// SPDX-License-Identifier: Apache-2.0
// Where NCCL's logs of a node's ranks go when they are written to be judged (lib/nccl_debug.h). All of it is done as
// the user whose ranks write there.
#pragma once

#include "lib/evidence.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// A new directory in /tmp; empty when none can be made.
std::string make_log_directory(std::uint32_t job_id, std::uint32_t step_id);

/// What the logs in it say; absent when there are none. Of each log so much is read as has its connections.
std::optional<LogEvidence> read_log_directory(const std::string& path);

/// With the logs in it.
void remove_log_directory(const std::string& path);

} // namespace rdma_nccl
