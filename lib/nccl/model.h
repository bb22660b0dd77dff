// SPDX-License-Identifier: Apache-2.0
// Predicts NCCL's own choices when no variable directs it (doc/facts/nccl-gid-choice.md).
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/settings/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

// The GID index that NCCL chooses for a RoCE port: the rule of NCCL 2.21 and newer with NCCL_IB_GID_INDEX unset,
// including its oddities (measured with 2.28.9). Older versions always use index 0.

/// The variables that affect NCCL's choice, with their defaults.
struct NcclGidEnvironment {
    bool ipv6 = false;                            ///< NCCL_IB_ADDR_FAMILY=AF_INET6
    RoceVersion roce_version = RoceVersion::V2;   ///< NCCL_IB_ROCE_VERSION_NUM
    std::optional<IpPrefix> range = std::nullopt; ///< NCCL_IB_ADDR_RANGE
};

struct NcclGidPick {
    unsigned index = 0;
    /// The rule met an entry whose type cannot be read: NCCL 2.21 to 2.25 fail there, newer versions continue.
    bool meets_unreadable_type = false;
};

/// Returns NCCL's choice for a port with this GID table. Slots between the entries of `port.gids`, up to
/// `port.gid_table_length`, count as empty.
NcclGidPick nccl_gid_pick(const Port& port, const NcclGidEnvironment& environment);

// The network interfaces that NCCL chooses when NCCL_SOCKET_IFNAME is unset: the rule of ncclFindInterfaces()
// (src/misc/socket.cc of NCCL 2.21 to 2.30). Bootstrap and the exchange of queue pairs use the first interface,
// NET/Socket uses all of them.

struct NcclInterfaceEnvironment {
    std::optional<bool> ipv6; ///< from NCCL_SOCKET_FAMILY, only this family; absent: both, IPv4 before IPv6
    /// NCCL 2.28 and newer skip virbr* and interfaces without link; older versions do not.
    bool before_2_28 = false;
};

/// Returns at most 16 interfaces, in NCCL's order; an empty list means that NCCL fails. If any names begin with "ib",
/// returns only those; else all but docker*, lo* and virbr*; else docker*; else lo*; else virbr*. Within each family
/// the order is that of getifaddrs(3) (Netdev::order). Ignores NCCL_COMM_ID, which may also direct the choice.
std::vector<std::string> nccl_interfaces(const Fabric& fabric, const NcclInterfaceEnvironment& environment);

} // namespace rdma_nccl
