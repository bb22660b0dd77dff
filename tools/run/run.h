// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl run`: starts one rank per GPU on this node.
#pragma once

#include "tools/common/command_line.h"
#include <string>
#include <vector>

namespace rdma_nccl {

/// Adds the subcommand to the help of `app`. CLI11 does not parse its command line: everything after PROGRAM belongs to
/// the program, but CLI11 would interpret words that look like a subcommand ("run ./a check") or a list ("[1,2]").
/// main() calls run_command() instead when the first word is "run".
void add_run_command(const Subcommand& app);

/// Runs the subcommand; `arguments` are the words after "run". Returns the exit code: that of the first rank that
/// failed; 128 + n if signal n ended that rank or the job; 127 or 126 if the program is not found or not executable; 2
/// for an error on the command line or in a variable; 1 for a failure of the launcher itself.
int run_command(const std::vector<std::string>& arguments);

} // namespace rdma_nccl
