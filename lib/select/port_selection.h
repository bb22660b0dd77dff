// SPDX-License-Identifier: Apache-2.0
// Chooses the HCA ports and the GIDs that NCCL uses on a node, with the reasons against the others. A pure function.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/select/rules.h"
#include "lib/settings/settings.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The decision on one entry of a GID table, with a reason that tells users what to do.
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
    std::optional<unsigned> gid_index; ///< the chosen entry; absent on InfiniBand and for ports that are left out
    /// The GID index that NCCL 2.21 or newer chooses for a used RoCE port: without any variables, and with the
    /// variables that result from this choice (lib/nccl/model.h).
    std::optional<unsigned> nccl_default{};
    std::optional<unsigned> nccl_effective{};
    std::vector<GidVerdict> gids; ///< one per Gid of the port, in the same order

    [[nodiscard]] bool used() const { return rule == PortRule::Used; }
    /// Returns "mlx5_1:1".
    [[nodiscard]] std::string name() const { return port_name(hca, port); }
};

struct FabricChoice {
    std::vector<PortChoice> ports;            ///< one per port of the Fabric, in the same order
    std::optional<unsigned> common_gid_index; ///< set when all used RoCE ports agree on one index
    bool gid_family_is_ipv6 = false;          ///< all chosen GIDs are IPv6
    /// For NCCL_IB_ADDR_RANGE when the indices differ: `prefix` or the network that covers the chosen addresses,
    /// whichever makes NCCL choose our entry on more ports; absent if neither helps. A `prefix` that changes nothing is
    /// still used.
    std::optional<IpPrefix> gid_range;
    std::vector<std::string> warnings;

    [[nodiscard]] std::vector<const PortChoice*> used() const;
    [[nodiscard]] std::vector<std::string> used_names() const;
    /// Returns "=mlx5_1:1,mlx5_2:1", the exact form for NCCL_IB_HCA; empty when no port is used.
    [[nodiscard]] std::string nccl_ib_hca() const;
    /// Returns true if all ports are EFA's: NCCL reaches them through the aws-ofi-nccl plugin alone.
    [[nodiscard]] bool is_efa() const;
    /// Returns true if any port of that HCA is used.
    [[nodiscard]] bool uses(const std::string& hca) const;
    /// Returns the reason to print for a whole HCA: that of its first used port, else of its first port.
    [[nodiscard]] std::string reason_for(const Hca& hca) const;
};

/// Chooses the ports and GIDs. `isolated`: ports, as "mlx5_3:1", in whose network no other node of the step has a port;
/// they are left out unless hca= names them.
FabricChoice choose_fabric(const Fabric& fabric, const Settings& settings, std::span<const std::string> isolated = {});

/// The interface for sockets (rendezvous, NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), its address, and the reason.
struct SocketChoice {
    std::string interface; ///< empty if none is usable
    std::optional<IpAddress> address;
    std::string why;
    std::vector<std::string> warnings;
};

/// Chooses the interface for sockets. With `net`: that interface, or the one with an address in that network; if it
/// cannot be used, warns and chooses automatically. Automatically: the first interface with a routable address (of
/// `family` if it has one; without `family`, IPv4 before IPv6) among
/// 1. the interfaces with the default route, which all nodes can reach;
/// 2. the interfaces of the used HCA ports;
/// 3. any interface that is up and belongs to no container or virtual machine (docker, virbr, veth, br-).
SocketChoice choose_socket_interface(const Fabric& fabric, const FabricChoice& choice, const Settings& settings);

/// Returns the first interface of a used port that is up with a routable address. With `name`, only that one counts.
std::optional<SocketChoice> interface_of_used_port(const Fabric& fabric, const FabricChoice& choice,
                                                   FamilyChoice family, std::string_view name = "");

} // namespace rdma_nccl
