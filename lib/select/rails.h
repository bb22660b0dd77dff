// SPDX-License-Identifier: Apache-2.0
// The rails of a node: the networks beside each other to which its ports in use belong.
#pragma once

#include "lib/select/port_selection.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns the used ports by the PCI addresses of their HCAs, those without one last, as NCCL numbers them from 2.29.7
/// on (ncclIbCompareDevs() in src/transport/net_ib/init.cc): names may differ from node to node. Pointers into
/// `choice`.
std::vector<const PortChoice*> in_order_of_nccl(const Fabric& fabric, const FabricChoice& choice);

/// Returns the network of the address that a port's GID was made from; nullopt on InfiniBand.
std::optional<IpPrefix> network_of_gid(const Fabric& fabric, const PortChoice& choice);

/// True for a link to a router, which does not tell which other nodes are reachable.
bool is_point_to_point(const IpPrefix& network);

struct Rails {
    std::map<std::string, unsigned, std::less<>> by_port; ///< "mlx5_1:1": from 0; empty: fewer than two ports are used
    std::string_view why;                                 ///< "by network" or "by PCI address"

    /// Returns the rail of a port, "mlx5_1:1"; nullopt if it is not used, or alone.
    [[nodiscard]] std::optional<unsigned> of(std::string_view port) const;
};

/// Numbers the used ports of this node by the networks of their GIDs, in the order of these networks, where each port
/// is in one and they are several; else in the order of NCCL. A node that lacks a rail gives the next one its number.
Rails rails_of(const Fabric& fabric, const FabricChoice& choice);

} // namespace rdma_nccl
