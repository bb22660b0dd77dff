// SPDX-License-Identifier: Apache-2.0
// What is wrong on this node before the ranks start, in less than a tenth of a second.
#pragma once

#include "lib/environment.h"
#include "lib/root.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

struct PreflightQuestion {
    const Root& root;
    const Environment& environment;
    unsigned ranks = 1; ///< of this node
    unsigned world_size = 1;
    std::string master_addr;       ///< of the world
    std::vector<std::string> gpus; ///< device files of the ranks' GPUs ("/dev/nvidia0"); empty: unknown or none
};

/// Warnings that say what is wrong and what to do: locked memory, open files, /dev/shm too small; other processes of
/// this user that hold the GPUs, /dev/shm/nccl-* that belong to no process; http_proxy and its like, which a rendezvous
/// by gRPC or HTTP goes through; HCAs that NCCL_IB_HCA or UCX_NET_DEVICES name and that are not there or not ACTIVE.
/// Limits are those of this process (to be asked before it changes its own), judged only on the live machine and where
/// the plugin has not done it (RDMA_NCCL_SET).
std::vector<std::string> preflight(const PreflightQuestion& question);

/// Whether no_proxy keeps connections to this host from the proxy: host names, suffixes, networks, "*", joined by
/// commas (as curl, Python, Go and gRPC read it).
bool no_proxy_covers(std::string_view no_proxy, std::string_view host);

} // namespace rdma_nccl
