// SPDX-License-Identifier: Apache-2.0
// What NCCL takes by itself when it is told nothing.
#pragma once

#include "lib/fabric.h"
#include "lib/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

// Which GID index NCCL takes by itself for a RoCE port: the rule of NCCL 2.21 and newer with NCCL_IB_GID_INDEX unset,
// as it behaves, with its oddities (doc/facts/nccl-gid-choice.md). Older versions always take index 0.

/// The variables that steer NCCL's choice, with its defaults.
struct NcclGidEnvironment {
    bool ipv6 = false;                            ///< NCCL_IB_ADDR_FAMILY=AF_INET6
    RoceVersion roce_version = RoceVersion::V2;   ///< NCCL_IB_ROCE_VERSION_NUM
    std::optional<IpPrefix> range = std::nullopt; ///< NCCL_IB_ADDR_RANGE
};

struct NcclGidPick {
    unsigned index = 0;
    /// The rule looked at an entry whose type cannot be read: NCCL 2.21 to 2.25 give up there, newer ones go on.
    bool meets_unreadable_type = false;
};

/// What NCCL takes for a port with this GID table. The slots between the entries of `port.gids`, up to
/// `port.gid_table_length`, count as empty.
NcclGidPick nccl_gid_pick(const Port& port, const NcclGidEnvironment& environment);

// Which network interfaces NCCL takes by itself when NCCL_SOCKET_IFNAME is unset: the rule of ncclFindInterfaces()
// (src/misc/socket.cc of NCCL 2.21 to 2.30), which bootstrap and the exchange of queue pairs follow with the first one,
// and NET/Socket with all of them.

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
