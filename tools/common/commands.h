// SPDX-License-Identifier: Apache-2.0
// Each subcommand registers itself. Running it sets `exit_code` as in rdma-nccl(1), EXIT STATUS, unless its own header
// or manual page says otherwise.
#pragma once

#include "tools/common/command_line.h"

#include <string>
#include <vector>

namespace rdma_nccl {

void add_check_command(const Subcommand& app, int& exit_code);   ///< is this node ready for RDMA?
void add_env_command(const Subcommand& app, int& exit_code);     ///< prints the variables for interactive shells
void add_explain_command(const Subcommand& app, int& exit_code); ///< prints the plan of this node with its reasons
void add_gids_command(const Subcommand& app, int& exit_code);    ///< prints the GID tables of this node
void add_top_command(const Subcommand& app, int& exit_code);     ///< shows live traffic over RDMA and over sockets
void add_topo_command(const Subcommand& app, int& exit_code);    ///< prints distances and places of ranks; 1: warnings
void add_verify_command(const Subcommand& app, int& exit_code);  ///< 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN

/// Runs `rdma-nccl run`; `arguments` are the words after "run". CLI11 does not parse them: everything after PROGRAM
/// belongs to the program, but CLI11 would interpret words that look like a subcommand ("run ./a check") or a list
/// ("[1,2]"). Returns the exit code: that of the first rank that failed; 128 + n if signal n ended that rank or the
/// job; 127 or 126 if the program is not found or not executable; 2 for an error on the command line or in a variable;
/// 1 for a failure of the launcher itself.
int run_command(const std::vector<std::string>& arguments);

} // namespace rdma_nccl
