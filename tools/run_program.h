// SPDX-License-Identifier: Apache-2.0
// From the words of the command line to the file that is executed.
#pragma once

#include "lib/environment.h"
#include "lib/result.h"
#include "tools/run_options.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

struct Command {
    std::string file;                   ///< path for execve(2)
    std::vector<std::string> arguments; ///< with argv[0]
};

/// Python files (*.py, or any with --run-path) and modules run with `${PYTHON_EXEC} -u`, else python3 or python from
/// PATH; anything else as it is. The error's `os_error` is ENOENT when the program is not there, EACCES when it cannot
/// be executed.
Result<Command> find_program(const RankProgram& program, const RunOptions& options, const Environment& environment);

/// What the ranks of one node execute.
class RankCommands {
public:
    /// All the same.
    explicit RankCommands(Command command) : commands_{std::move(command)} {}
    /// `assigned`: by local rank, the position in `commands`.
    RankCommands(std::vector<Command> commands, std::vector<std::size_t> assigned)
        : commands_(std::move(commands)), assigned_(std::move(assigned)) {}

    [[nodiscard]] const Command& of(std::size_t local_rank) const {
        return commands_.at(assigned_.empty() ? 0 : assigned_.at(local_rank));
    }

private:
    std::vector<Command> commands_;
    std::vector<std::size_t> assigned_;
};

/// Those of `ranks` ranks from `first_rank` on, of `world_size` in the world. Only programs that run here need to be
/// here. Errors as those of find_program() and assign_programs(), the latter without `os_error`.
Result<RankCommands> find_commands(const RunOptions& options, const Environment& environment, unsigned world_size,
                                   unsigned first_rank, unsigned ranks);

/// What a shell would return for a program that cannot be executed: 127 when it is not there, else 126.
int exit_code_for_exec_error(int os_error);

} // namespace rdma_nccl
