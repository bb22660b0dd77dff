// SPDX-License-Identifier: Apache-2.0
// Which HCA ports and which GIDs NCCL shall use on a node, and why not the others (doc/design.md, Ports and GIDs): a
// pure function.
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_rule.h"
#include "lib/settings.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What was decided on one entry of a GID table, and the reason in words a user can act on.
struct GidVerdict {
    unsigned index = 0;
    GidRule rule = GidRule::Used;
    std::string reason;

    [[nodiscard]] bool used() const { return rule == GidRule::Used; }
};

/// `reason` continues "mlx5_3 port 1 ...": "is used: RoCE, ...", "is DOWN (Disabled): left out; ...".
struct PortChoice {
    std::string hca;
    unsigned port = 1;
    LinkLayer link_layer = LinkLayer::Unknown;
    PortRule rule = PortRule::Used;
    std::string reason;
    std::optional<unsigned> gid_index; ///< the entry used; absent on InfiniBand and when the port is left out
    /// The index that NCCL 2.21 or newer takes for a used RoCE port when it is told nothing, and with the variables
    /// that this choice leads to (lib/nccl_model.h).
    std::optional<unsigned> nccl_alone;
    std::optional<unsigned> nccl_told;
    std::vector<GidVerdict> gids; ///< one per Gid of the port, same order

    [[nodiscard]] bool used() const { return rule == PortRule::Used; }
    /// "mlx5_3:1"
    [[nodiscard]] std::string name() const;
};

struct FabricChoice {
    std::vector<PortChoice> ports;            ///< one per port of the Fabric, same order
    std::optional<unsigned> common_gid_index; ///< set when all used RoCE ports agree on one index
    bool gid_family_is_ipv6 = false;          ///< the chosen GIDs are IPv6
    /// For NCCL_IB_ADDR_RANGE when the indices differ: `prefix` where it was given, else what NCCL needs to find the
    /// chosen entries by itself, else absent.
    std::optional<IpPrefix> gid_range;
    std::vector<std::string> warnings;

    [[nodiscard]] std::vector<const PortChoice*> used() const;
    [[nodiscard]] std::vector<std::string> used_names() const;
    /// "=mlx5_1:1,mlx5_2:1", the exact form NCCL_IB_HCA wants; empty when no port is used.
    [[nodiscard]] std::string nccl_ib_hca() const;
    /// Whether any port of that HCA is used.
    [[nodiscard]] bool uses(const std::string& hca) const;
    /// The one reason to print for a whole HCA.
    [[nodiscard]] std::string reason_for(const std::string& hca) const;
};

/// `lonely`: ports, as "mlx5_3:1", in whose network no other node of the step has one; left out unless hca= names them.
FabricChoice choose_fabric(const Fabric& fabric, const Settings& settings, std::span<const std::string> lonely = {});

/// The interface for sockets (rendezvous, NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME) and its address, with the reason.
struct SocketChoice {
    std::string interface; ///< empty when none is usable
    std::optional<IpAddress> address;
    std::string why;
    std::vector<std::string> warnings;
};

/// `net` given: that interface or the one with an address in that network; when it cannot be used, a warning and auto.
/// Auto, the first that has a routable address (of `family` before the other; IPv4 before IPv6):
/// 1. the interface with the default route, which all nodes can reach; 2. the interface of the first used HCA port; 3.
/// any interface that is up and belongs to no container or virtual machine (docker, virbr, veth, br-).
SocketChoice choose_socket_interface(const Fabric& fabric, const FabricChoice& choice, const Settings& settings);

} // namespace rdma_nccl
