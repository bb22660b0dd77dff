// SPDX-License-Identifier: Apache-2.0
// The entries that a RoCE port's GID table must have: reading can stop after them and skip the empty slots. Usually
// only the first four of 256 slots are in use.
#pragma once

#include "lib/fabric.h"

#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// For each RoCE version, the kernel adds one entry per address of the port's interface and of the VLANs or bonds
/// above it (drivers/infiniband/core/roce_gid_mgmt.c), never twice the same address, version and interface
/// (cache.c). Other entries belong to other network namespaces, and no plan uses them.
class ExpectedGids {
public:
    /// `netdevs`: with all their addresses.
    ExpectedGids(const std::vector<Netdev>& netdevs, const Hca& hca, const Port& port);

    /// Whether both versions of each are there. False if the table must be read to its end: we expect no more than
    /// link-local addresses (the other entries tell why), or the device has only one version.
    [[nodiscard]] bool are_all_in(const std::vector<Gid>& gids) const;

private:
    std::vector<std::pair<std::string, IpAddress>> entries_; ///< interface and address
};

} // namespace rdma_nccl
