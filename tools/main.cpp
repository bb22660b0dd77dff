// SPDX-License-Identifier: Apache-2.0
// rdma-nccl SUBCOMMAND [options]. Each subcommand has a file of its own and is registered here.

#include "tools/bench/bench.h"
#include "tools/common/command_line.h"
#include "tools/common/print.h"
#include "tools/common/version.h"
#include "tools/complete/complete.h"
#include "tools/pairs/pairs.h"

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

static void add_subcommands(const Subcommand& app, int& exit_code) {
    app.subcommand("run", "start one rank per GPU on this node (rdma-nccl run --help)").leave_the_rest();
    for (const auto& add :
         {add_gids_command, add_env_command, add_explain_command, add_topo_command, add_verify_command, add_top_command,
          add_check_command, pairs::add_command, bench::add_command}) { // in the order of --help
        add(app, exit_code);
    }
}

static int run_subcommand(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "run") { // parses its own line: arguments after PROGRAM belong to it
        return run_command({argv + 2, argv + argc});
    }
    CommandLine line("NCCL and torch over RDMA on Slurm: what this node has, what its ranks get, and start them");
    line.add_version(version_text());
    int exit_code = 0;
    add_subcommands(line.command(), exit_code);
    if (argc > 3 && std::string_view(argv[1]) == "complete") { // called by the shells' scripts in tools/complete
        return complete::print({argv + 2, argv + argc}, line.command());
    }
    if (const int code = line.run(argc, argv); code != 0) {
        return code;
    }
    return finish_output() ? exit_code : exit_cannot_tell;
}

} // namespace rdma_nccl

int main(int argc, char** argv) {
    try {
        return rdma_nccl::run_subcommand(argc, argv);
    } catch (const std::exception& fault) {
        rdma_nccl::print_error(fault.what());
        return rdma_nccl::exit_cannot_tell;
    }
}
