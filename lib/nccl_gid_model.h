// SPDX-License-Identifier: Apache-2.0
// Which GID index NCCL takes by itself for a RoCE port: the rule of NCCL 2.21 and newer with NCCL_IB_GID_INDEX unset,
// as it behaves, with its oddities (facts: measured with 2.28.9). Older versions always take index 0.
#pragma once

#include "lib/fabric.h"
#include "lib/settings.h"

#include <optional>

namespace rdma_nccl {

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

} // namespace rdma_nccl
