// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace rdma_nccl {

/// The node's name as the user knows it: Slurm's (SLURMD_NODENAME), else the host's.
std::string node_name();

/// "signal 9 (Killed)"
std::string signal_text(int signal_number);

} // namespace rdma_nccl
