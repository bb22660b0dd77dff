// SPDX-License-Identifier: Apache-2.0
// The output of `rdma-nccl run --dry-run`: everything that would be started on this node, as a pure function of the
// plan.
#pragma once

#include "tools/run/job.h"

#include <string>

namespace rdma_nccl::run {

/// Returns a table of the ranks (CPUs and memory node only if they are bound), then the variables that they get in
/// addition to the launcher's: first those that all ranks have, then those of each rank. Commands are quoted for a
/// shell.
std::string dry_run_text(const Job& job);

/// Returns the same as JSON, {"schema": 1, ...}.
std::string dry_run_json(const Job& job);

/// Returns the file and the arguments, quoted for a shell.
std::string command_text(const Command& command);

} // namespace rdma_nccl::run
