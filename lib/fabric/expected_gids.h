// SPDX-License-Identifier: Apache-2.0
// The entries that a RoCE port's GID table must have. Once all of them are found, reading can stop and skip the empty
// slots: usually only the first four of 256 slots are in use.
#pragma once

#include "lib/fabric/fabric.h"

#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// For each RoCE version, the kernel adds one entry per address of the port's interface and of the VLANs or bonds above
/// it (drivers/infiniband/core/roce_gid_mgmt.c), and never the same address, version and interface twice (cache.c).
/// Other entries belong to other network namespaces, and no plan uses them.
class ExpectedGids {
public:
    /// `netdevs` must have all their addresses.
    ExpectedGids(const std::vector<Netdev>& netdevs, const Hca& hca, const Port& port);

    /// Returns true if the entries of both versions are there for each address. Otherwise the table must be read to its
    /// end. Always false if only link-local addresses are expected, as the other entries tell why, and if the device
    /// has only one version.
    [[nodiscard]] bool are_all_in(const std::vector<Gid>& gids) const;

private:
    std::vector<std::pair<std::string, IpAddress>> entries_; ///< interface and address
};

} // namespace rdma_nccl
