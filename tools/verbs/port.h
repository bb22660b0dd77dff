// SPDX-License-Identifier: Apache-2.0
// An opened HCA port. Errors from it and from objects made on it do not name the port: the caller knows it, and adds it
// with the node's name.
#pragma once

#include "tools/verbs/libibverbs.h"

#ifdef HAVE_IBVERBS

#include "lib/net/ip.h"
#include "tools/verbs/rail.h"

namespace rdma_nccl {

/// The members are released in reverse order of their creation.
struct VerbsPort {
    VerbsLibrary library{};
    PairRail rail;
    VerbsContext context;
    VerbsDomain domain;
    ibv_port_attr attributes{};
    IpAddress gid; ///< of the rail's GID index

    /// Fails if the device, port or GID does not match the rail.
    static Result<VerbsPort> open(const PairRail& rail);
};

/// Returns "n01 mlx5_0:1" with the kernel's host name, for callers that do not know the node's name.
std::string port_here(const PairRail& rail);

} // namespace rdma_nccl

#endif
