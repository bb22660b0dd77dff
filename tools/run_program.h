// SPDX-License-Identifier: Apache-2.0
// From the words of the command line to the file that is executed.
#pragma once

#include "lib/environment.h"
#include "lib/result.h"
#include "tools/run_options.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct Command {
    std::string file;                   ///< path for execve(2)
    std::vector<std::string> arguments; ///< with argv[0]
};

/// Python files (*.py) and modules run with `${PYTHON_EXEC} -u`, else python3 or python from PATH; anything else as it
/// is. The error's `os_error` is ENOENT when the program is not there, EACCES when it cannot be executed.
Result<Command> find_program(const RunOptions& options, const Environment& environment);

/// What a shell would return for a program that cannot be executed: 127 when it is not there, else 126.
int exit_code_for_exec_error(int os_error);

} // namespace rdma_nccl
