// SPDX-License-Identifier: Apache-2.0
#include "tools/main_command.h"

#include "tools/common/print.h"
#include "tools/common/version.h"
#include "tools/complete/complete.h"

#include <exception>
#include <string_view>

namespace rdma_nccl {

static int run_subcommand(int argc, char** argv, std::span<const AddSubcommand> subcommands) {
    if (argc > 1 && std::string_view(argv[1]) == "run") { // parses its own line: arguments after PROGRAM belong to it
        return run_command({argv + 2, argv + argc});
    }
    CommandLine line("NCCL and torch over RDMA on Slurm: what this node has, what its ranks get, and start them");
    line.add_version(version_text());
    int exit_code = 0;
    const auto app = line.command();
    app.subcommand("run", "start one rank per GPU on this node (rdma-nccl run --help)").leave_the_rest();
    for (const auto add : subcommands) {
        add(app, exit_code);
    }
    if (argc > 3 && std::string_view(argv[1]) == "complete") { // called by the shells' scripts in tools/complete
        return complete::print({argv + 2, argv + argc}, app);
    }
    if (const int code = line.run(argc, argv); code != 0) {
        return code;
    }
    return finish_output() ? exit_code : exit_cannot_tell;
}

int main_command(int argc, char** argv, std::span<const AddSubcommand> subcommands) {
    try {
        return run_subcommand(argc, argv, subcommands);
    } catch (const std::exception& fault) {
        print_error(fault.what());
        return exit_cannot_tell;
    }
}

} // namespace rdma_nccl
