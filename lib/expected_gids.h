// SPDX-License-Identifier: Apache-2.0
// Which entries a RoCE port's GID table must have, so that reading it can end before its many empty slots: of a table
// with 256 slots usually the first four are in use.
#pragma once

#include "lib/fabric.h"

#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// The kernel makes an entry of each RoCE version for each address of the port's interface and of what stands on it, a
/// VLAN or a bond (drivers/infiniband/core/roce_gid_mgmt.c), and no two of the same address, version and interface
/// (cache.c). What else is in a table belongs to other network namespaces, and no plan uses it.
class ExpectedGids {
public:
    /// `netdevs`: with all their addresses.
    ExpectedGids(const std::vector<Netdev>& netdevs, const Hca& hca, const Port& port);

    /// Whether both versions of each are there. False where a table has to be read to its end: nothing better than
    /// link-local addresses is expected (what else it has tells why), or a device has one version only.
    [[nodiscard]] bool are_all_in(const std::vector<Gid>& gids) const;

private:
    std::vector<std::pair<std::string, IpAddress>> entries_; ///< interface and address
};

} // namespace rdma_nccl
