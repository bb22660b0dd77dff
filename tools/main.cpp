// SPDX-License-Identifier: Apache-2.0
// rdma-nccl SUBCOMMAND [options]. Each subcommand has a folder of its own and is registered here.
#include "tools/bench/bench.h"
#include "tools/main_command.h"
#include "tools/pairs/pairs.h"

#include <array>

int main(int argc, char** argv) {
    using namespace rdma_nccl;
    constexpr std::array<AddSubcommand, 11> subcommands = {add_gids_command,   add_env_command,   add_explain_command,
                                                           add_topo_command,   add_order_command, add_verify_command,
                                                           add_top_command,    add_hang_command,  add_check_command,
                                                           pairs::add_command, bench::add_command};
    return main_command(argc, argv, subcommands);
}
