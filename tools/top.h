// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace rdma_nccl {

/// `rdma-nccl top`: what goes over RDMA and over sockets, live.
void add_top_command(CLI::App& app, int& exit_code);

} // namespace rdma_nccl
