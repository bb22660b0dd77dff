// SPDX-License-Identifier: Apache-2.0
// An opened HCA port.
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
    std::string name; ///< "n01 mlx5_0:1", for messages
    VerbsContext context;
    VerbsDomain domain;
    ibv_port_attr attributes{};
    IpAddress gid; ///< of the rail's index

    /// Fails when the device, port or GID is not as the rail has it.
    static Result<VerbsPort> open(const PairRail& rail);
};

} // namespace rdma_nccl

#endif
