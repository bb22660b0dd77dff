// SPDX-License-Identifier: Apache-2.0
// The programs of a world, which ranks run them, and the file to execute for each.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"
#include "tools/run/options/options.h"
#include "tools/run/process/process_set.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::run {

/// Splits "PROGRAM ARGS [: [--rank RANGES] [--] PROGRAM ARGS]...". `first`: the ranks of the first program; if empty,
/// it is the only program, and all words belong to it. An argument of two or more colons loses one.
Result<std::vector<RankProgram>> split_programs(std::span<const std::string> args, std::vector<RankRange> first);

/// Returns the index into `programs` of each of `count` ranks from `first_rank` on. Fails if any rank of the world has
/// two programs or none, or if a program is for a rank outside of the world; the error names these ranks.
Result<std::vector<std::size_t>> assign_programs(const std::vector<RankProgram>& programs, unsigned world_size,
                                                 unsigned first_rank, unsigned count);

/// Returns the command of a program. Python files (*.py, or any file with --run-path) and modules run with
/// `${PYTHON_EXEC} -u`, or else with python3 or python from PATH; anything else is executed directly. The error's
/// `os_error` is ENOENT if the program does not exist, and EACCES if it cannot be executed.
Result<Command> find_program(const RankProgram& program, const Options& options, const Environment& environment);

/// Returns the commands of the `ranks` ranks from `first_rank` on, in a world of `world_size` ranks. Only programs that
/// run on this node must exist on it. Fails like find_program() and assign_programs(); errors of the latter have no
/// `os_error`.
Result<std::vector<Command>> find_commands(const Options& options, const Environment& environment, unsigned world_size,
                                           unsigned first_rank, unsigned ranks);

} // namespace rdma_nccl::run
