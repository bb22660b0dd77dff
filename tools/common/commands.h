// SPDX-License-Identifier: Apache-2.0
// Each subcommand registers itself. Running it sets `exit_code` as in rdma-nccl(1), EXIT STATUS, unless its own header
// or manual page says otherwise.
#pragma once

#include "tools/common/command_line.h"

namespace rdma_nccl {

void add_check_command(const Subcommand& app, int& exit_code);   ///< is this node ready for RDMA?
void add_env_command(const Subcommand& app, int& exit_code);     ///< prints the variables for interactive shells
void add_explain_command(const Subcommand& app, int& exit_code); ///< prints the plan of this node with its reasons
void add_gids_command(const Subcommand& app, int& exit_code);    ///< prints the GID tables of this node
void add_top_command(const Subcommand& app, int& exit_code);     ///< shows live traffic over RDMA and over sockets
void add_topo_command(const Subcommand& app, int& exit_code);    ///< prints distances and places of ranks; 1: warnings
void add_verify_command(const Subcommand& app, int& exit_code);  ///< 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN

} // namespace rdma_nccl
