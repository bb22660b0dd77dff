// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace rdma_nccl {

/// Registers `rdma-nccl gids`; running it sets `exit_code` as gids_command() says.
void add_gids_command(CLI::App& app, int& exit_code);

} // namespace rdma_nccl
