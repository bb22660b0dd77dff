// SPDX-License-Identifier: Apache-2.0
// rdma-nccl verify: was RDMA really used? Judged by the logs of NCCL.
#pragma once

#include "lib/verdict.h"

#include <CLI/CLI.hpp>

namespace rdma_nccl {

/// Registers `rdma-nccl verify`; running it sets `exit_code`: 0 USED or IDLE, 1 MIXED, 2 NOT USED or a bad command
/// line, 3 UNKNOWN.
void add_verify_command(CLI::App& app, int& exit_code);

/// 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN.
int exit_code_of(Verdict verdict);

} // namespace rdma_nccl
