// SPDX-License-Identifier: Apache-2.0
// An opened HCA port. Errors do not say which it is, nor those of what is made on it: who asks knows, and puts the
// node's name in front, too.
#pragma once

#include "tools/pairs_values.h"
#include "tools/verbs_library.h"

#ifdef HAVE_IBVERBS

#include "lib/ip.h"

namespace rdma_nccl {

/// Members are given back in the reverse order of their making.
struct VerbsPort {
    VerbsLibrary library{};
    PairRail rail;
    VerbsContext context;
    VerbsDomain domain;
    ibv_port_attr attributes{};
    IpAddress gid; ///< of the rail's index

    /// Fails when the device, port or GID is not as the rail has it.
    static Result<VerbsPort> open(const PairRail& rail);
};

/// "n01 mlx5_0:1" by the kernel's name of this machine, for those who do not know the node's.
std::string port_here(const PairRail& rail);

} // namespace rdma_nccl

#endif
