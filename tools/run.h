// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl run`: starts one rank per GPU on this node.
#pragma once

#include "tools/command_line.h"
#include <string>
#include <vector>

namespace rdma_nccl {

/// Names the subcommand in the help of `app`. Its command line is not parsed there: everything behind PROGRAM is the
/// program's, and CLI11 would take it apart where it looks like a subcommand ("run ./a check") or a list ("[1,2]").
/// main() calls run_command() instead when the first word is "run".
void add_run_command(const Subcommand& app);

/// `arguments` are those behind the word "run". Returns the code to exit with: of the first rank that failed, 128 + n
/// where signal n ended it or the job, 127 and 126 where the program is not found or not executable, 2 for a mistake on
/// the command line or in a variable, 1 for trouble of the launcher's own.
int run_command(const std::vector<std::string>& arguments);

} // namespace rdma_nccl
