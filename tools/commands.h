// SPDX-License-Identifier: Apache-2.0
// Each subcommand registers itself; running it sets `exit_code`: 0 good, 1 with warnings, 2 nothing is usable or a bad
// command line, 3 cannot tell, where its own header or manual page says no other.
#pragma once

#include "tools/command_line.h"

namespace rdma_nccl {

void add_check_command(const Subcommand& app, int& exit_code); ///< is this node ready for RDMA
void add_env_command(const Subcommand& app, int& exit_code);   ///< the variables for this node, for interactive shells
void add_explain_command(const Subcommand& app, int& exit_code); ///< the plan of this node with its reasons
void add_gids_command(const Subcommand& app, int& exit_code);    ///< the GID tables of this node
void add_top_command(const Subcommand& app, int& exit_code);     ///< what goes over RDMA and over sockets, live
void add_topo_command(const Subcommand& app,
                      int& exit_code); ///< distances, and where the ranks belong; 1: with warnings
void add_verify_command(const Subcommand& app, int& exit_code); ///< 0 USED or IDLE, 1 MIXED, 2 NOT USED, 3 UNKNOWN

} // namespace rdma_nccl
