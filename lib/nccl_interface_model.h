// SPDX-License-Identifier: Apache-2.0
// Which network interfaces NCCL takes by itself when NCCL_SOCKET_IFNAME is unset: the rule of ncclFindInterfaces()
// (src/misc/socket.cc of NCCL 2.21 to 2.30), which bootstrap and the exchange of queue pairs follow with the first one,
// and NET/Socket with all of them.
#pragma once

#include "lib/fabric.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct NcclInterfaceEnvironment {
    std::optional<bool> ipv6; ///< NCCL_SOCKET_FAMILY: only this family; absent: both, IPv4 before IPv6
    /// NCCL 2.28 and newer pass over virbr* and over interfaces without link; older ones do not.
    bool before_2_28 = false;
};

/// The interfaces in NCCL's order, at most 16: names that begin with "ib" alone where there are any, else all but
/// docker*, lo* and virbr*, else docker*, else lo*, else virbr*; each family's in the order in which
/// getifaddrs(3) lists them (Netdev::order). NCCL_COMM_ID, which may direct the choice, is not looked at. Empty: NCCL
/// fails.
std::vector<std::string> nccl_interfaces(const Fabric& fabric, const NcclInterfaceEnvironment& environment);

} // namespace rdma_nccl
