// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/pairs_options.h"

#include <CLI/CLI.hpp>

namespace rdma_nccl {

/// `rdma-nccl pairs`: RDMA between all nodes of a step, pair by pair.
void add_pairs_command(CLI::App& app, int& exit_code);

/// As one of the members of the step, or alone. Returns the exit code.
int run_pairs(const PairsOptions& options);

} // namespace rdma_nccl
