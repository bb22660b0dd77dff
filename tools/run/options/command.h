// SPDX-License-Identifier: Apache-2.0
// Finds the file to execute from the words of the command line.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"
#include "tools/run/options/options.h"
#include "tools/run/process/command.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

/// Returns the command of a program. Python files (*.py, or any file with --run-path) and modules run with
/// `${PYTHON_EXEC} -u`, or else with python3 or python from PATH; anything else is executed directly. The error's
/// `os_error` is ENOENT if the program does not exist, and EACCES if it cannot be executed.
Result<Command> find_program(const RankProgram& program, const Options& options, const Environment& environment);

/// The commands of the ranks of one node.
class RankCommands {
public:
    /// All ranks have the same command.
    explicit RankCommands(Command command) : commands_{std::move(command)} {}
    /// `assigned`: index into `commands` by local rank.
    RankCommands(std::vector<Command> commands, std::vector<std::size_t> assigned)
        : commands_(std::move(commands)), assigned_(std::move(assigned)) {}

    [[nodiscard]] const Command& of(std::size_t local_rank) const {
        return commands_.at(assigned_.empty() ? 0 : assigned_.at(local_rank));
    }

private:
    std::vector<Command> commands_;
    std::vector<std::size_t> assigned_;
};

/// Returns the commands of the `ranks` ranks from `first_rank` on, in a world of `world_size` ranks. Only programs that
/// run on this node must exist on it. Fails like find_program() and assign_programs(); errors of the latter have no
/// `os_error`.
Result<RankCommands> find_commands(const Options& options, const Environment& environment, unsigned world_size,
                                   unsigned first_rank, unsigned ranks);

} // namespace rdma_nccl::run
