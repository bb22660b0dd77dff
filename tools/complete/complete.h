// SPDX-License-Identifier: Apache-2.0
// What may stand at the cursor of a command line. The shells' scripts beside this file call `rdma-nccl complete
// WORD...` for it, so that all shells agree with the options of the command that is installed.
#pragma once

#include "tools/common/command_line.h"

#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::complete {

/// `words`: two or more, those of the line up to the cursor; the first is a program (rdma-nccl, or srun, sbatch or
/// salloc), and the last one is to be completed. `app`: all subcommands. Returns lines "WORD<tab>HELP" with what the
/// last word may become, or one line that tells the shell what belongs there: ":files", ":directories", or ":command N"
/// if words[N] begins a command line of its own.
std::vector<std::string> complete_words(std::span<const std::string> words, const Subcommand& app);

/// Prints these lines. Returns an exit code.
int print(const std::vector<std::string>& words, const Subcommand& app);

} // namespace rdma_nccl::complete
