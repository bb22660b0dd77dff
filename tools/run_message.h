// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace rdma_nccl {

/// One line on stderr, "rdma-nccl: TEXT", in one write(2): it does not mix with what the ranks write there.
void print_message(std::string_view text);

/// The node's name as the user knows it: Slurm's (SLURMD_NODENAME), else the host's.
std::string node_name();

/// "signal 9 (Killed)"
std::string signal_text(int signal_number);

} // namespace rdma_nccl
