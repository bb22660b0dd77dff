// SPDX-License-Identifier: Apache-2.0
// main() of the commands, which differ in their subcommands.
#pragma once

#include "tools/common/command_line.h"

#include <span>

namespace rdma_nccl {

/// Adds a subcommand, which sets the exit code when it has run.
using AddSubcommand = void (*)(const Subcommand& app, int& exit_code);

/// Runs `run`, or one of `subcommands`, which --help lists in this order. Returns the exit code of the process. Prints
/// what an exception says.
int main_command(int argc, char** argv, std::span<const AddSubcommand> subcommands);

} // namespace rdma_nccl
