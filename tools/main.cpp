// SPDX-License-Identifier: Apache-2.0
// rdma-nccl SUBCOMMAND [options]. Each subcommand has a file of its own and is registered here.

#include "config.h"
#include "tools/bench/bench.h"
#include "tools/common/commands.h"
#include "tools/common/exit_codes.h"
#include "tools/common/print.h"
#include "tools/pairs/pairs.h"
#include "tools/run/run.h"

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

int run_subcommand(int argc, char** argv) {
    if (argc > 1 && std::string_view(argv[1]) == "run") { // parses its own line: arguments after PROGRAM belong to it
        return rdma_nccl::run_command({argv + 2, argv + argc});
    }
    rdma_nccl::CommandLine line(
        "NCCL and torch over RDMA on Slurm: what this node has, what its ranks get, and start them");
    line.add_version(PACKAGE_VERSION);
    const auto app = line.command();
    int exit_code = 0;
    rdma_nccl::add_run_command(app);
    rdma_nccl::add_gids_command(app, exit_code);
    rdma_nccl::add_env_command(app, exit_code);
    rdma_nccl::add_explain_command(app, exit_code);
    rdma_nccl::add_topo_command(app, exit_code);
    rdma_nccl::add_verify_command(app, exit_code);
    rdma_nccl::add_top_command(app, exit_code);
    rdma_nccl::add_check_command(app, exit_code);
    rdma_nccl::add_pairs_command(app, exit_code);
    rdma_nccl::add_bench_command(app, exit_code);
    if (const int code = line.run(argc, argv); code != 0) {
        return code;
    }
    return rdma_nccl::finish_output() ? exit_code : rdma_nccl::exit_cannot_tell;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run_subcommand(argc, argv);
    } catch (const std::exception& fault) {
        rdma_nccl::print_error(fault.what());
        return rdma_nccl::exit_cannot_tell;
    }
}
