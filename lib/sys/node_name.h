// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace rdma_nccl {

/// Slurm's name of this node, from SLURMD_NODENAME of this process (set by slurmd and slurmstepd); empty without Slurm.
std::string slurm_node_name();

/// gethostname(2), with its domain where it has one; "localhost" when there is none.
std::string own_host_name();

/// Slurm's name of this node, else its host name.
std::string own_node_name();

} // namespace rdma_nccl
