// SPDX-License-Identifier: Apache-2.0
// What is wrong on this node before the ranks start, in less than a tenth of a second.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct PreflightQuestion {
    const Root& root;
    const Environment& environment;
    unsigned ranks = 1; ///< of this node
    unsigned world_size = 1;
    std::vector<std::string> gpus; ///< device files of the ranks' GPUs ("/dev/nvidia0"); empty: unknown or none
};

/// Warnings that say what is wrong and what to do: locked memory, open files, /dev/shm too small; other processes of
/// this user that hold the GPUs, /dev/shm/nccl-* that belong to no process; http_proxy and its like, which a rendezvous
/// by gRPC or HTTP goes through; ports of HCAs that NCCL_IB_HCA names and that are not ACTIVE. Limits are judged only
/// where the plugin has not done it (RDMA_NCCL_SET).
std::vector<std::string> preflight(const PreflightQuestion& question);

} // namespace rdma_nccl
