// SPDX-License-Identifier: Apache-2.0
// Checks this node for problems before the ranks start, in less than a tenth of a second.
#pragma once

#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::run {

struct PreflightQuestion {
    const SysRoot& root;
    const Environment& environment;
    unsigned ranks = 1; ///< on this node
    unsigned world_size = 1;
    std::string master_addr;       ///< of the world
    std::vector<std::string> gpus; ///< device files of the ranks' GPUs ("/dev/nvidia0"); empty: unknown or none
};

/// Returns warnings that describe a problem and its solution: limits of locked memory, open files or /dev/shm that are
/// too small; other processes of this user that hold the GPUs; files /dev/shm/nccl-* that no process uses; http_proxy
/// and similar variables, which affect a rendezvous by gRPC or HTTP; HCAs in NCCL_IB_HCA or UCX_NET_DEVICES that do not
/// exist or are not ACTIVE. The limits are those of this process, so it must not have changed them; they are checked
/// only on the live machine, and only if the plugin has not done it (RDMA_NCCL_SET).
std::vector<std::string> preflight(const PreflightQuestion& question);

/// Returns true if no_proxy excludes this host from the proxy. Its entries are host names, suffixes, networks and "*",
/// separated by commas (as curl, Python, Go and gRPC read it).
bool no_proxy_covers(std::string_view no_proxy, std::string_view host);

} // namespace rdma_nccl::run
