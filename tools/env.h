// SPDX-License-Identifier: Apache-2.0
// rdma-nccl env: the variables for this node, for interactive shells.
#pragma once

#include "lib/settings.h"

#include <CLI/CLI.hpp>

namespace rdma_nccl {

/// Registers the subcommand; running it sets `exit_code` (0 good, 1 with warnings, 2 no plan, 3 cannot tell).
void add_env_command(CLI::App& app, int& exit_code);

} // namespace rdma_nccl
