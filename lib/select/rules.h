// SPDX-License-Identifier: Apache-2.0
// The rules that decide on ports and GIDs. Each has a stable name for programs; it appears in JSON outputs and is
// explained in rdma-nccl-gids(1).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace rdma_nccl {

enum class PortRule {
    Used,
    NotNamed,        ///< hca= names other ports
    Excluded,        ///< hca=^ names this port
    Iwarp,           ///< node type RNIC
    Efa,             ///< Amazon's adapter, which has no RoCE
    NodeType,        ///< neither CA nor RNIC
    LinkLayer,       ///< neither Ethernet nor InfiniBand
    NoDeviceFile,    ///< verbs cannot open it: no /dev/infiniband/uverbsN, or no permission
    TooSlowToRead,   ///< its files did not answer in time
    StateUnreadable, ///< no state, or an invalid one; no link layer that can be read
    NotActive,       ///< DOWN, ARMED, ...
    NoSubnetManager, ///< InfiniBand INIT
    NoGidTable,      ///< RoCE, and gids/ cannot be read
    NoGid,           ///< RoCE, and all slots are empty
    NoUsableGid,     ///< RoCE, and every entry is rejected
    NoSuchGid,       ///< gid=N, and slot N is empty or beyond 255
    OutsidePrefix,   ///< RoCE without an address in prefix=, and others have one
    VirtualFunction, ///< its physical function is usable on this host
    BondSlave,       ///< the bond above it is usable
    Software,        ///< rxe, and the node has hardware
    OtherLinkLayer,  ///< RoCE beside better InfiniBand, or vice versa
    LinkLocal,       ///< only fe80:: or 169.254/16, and others have routable addresses
    Slower,          ///< below the top rate class
    Faster,          ///< above the rate class of the ports beside GPUs, and not beside one itself
    Management,      ///< carries the default route
    TooMany,         ///< beyond the 32 ports that NCCL takes
    NoNeighbour,     ///< no other node of the step has a port in its network
};

enum class GidRule {
    Used,
    PortLeftOut,   ///< would be used, but its port is not
    InfiniBand,    ///< only RoCE has an index to choose
    NotForced,     ///< gid=N names another index
    NotUnicast,    ///< zero, multicast or loopback
    WrongVersion,  ///< RoCE v1, or v2 with roce=1
    TypeUnknown,   ///< gid_attrs/types cannot be read, or has an unknown version
    NetdevUnknown, ///< no interface in this network namespace
    Loopback,      ///< on lo
    NetdevDown,    ///< the interface has no link
    WrongFamily,   ///< family= asks for the other family
    IndexTooHigh,  ///< above 255, the highest that verbs can address
    LessPreferred, ///< another entry has a better kind of address
    Stacked,       ///< on a VLAN or macvlan, and another entry is not
    Later,         ///< as good as the one used, but later in the table
};

/// The names of the rules, in the order of the enumerators; those of ports are tried in this order.
inline constexpr std::array<std::string_view, 27> port_rule_names = {
    "used",
    "not-named",
    "excluded",
    "iwarp",
    "efa",
    "node-type",
    "link-layer",
    "no-device-file",
    "too-slow-to-read",
    "state-unreadable",
    "not-active",
    "no-subnet-manager",
    "no-gid-table",
    "no-gid",
    "no-usable-gid",
    "no-such-gid",
    "outside-prefix",
    "virtual-function",
    "bond-slave",
    "software",
    "other-link-layer",
    "link-local",
    "slower",
    "faster",
    "management",
    "too-many",
    "no-neighbour",
};
inline constexpr std::array<std::string_view, 15> gid_rule_names = {
    "used",          "port-left-out",  "infiniband",     "not-forced", "not-unicast",
    "wrong-version", "type-unknown",   "netdev-unknown", "loopback",   "netdev-down",
    "wrong-family",  "index-too-high", "less-preferred", "stacked",    "later"};

constexpr std::string_view rule_name(PortRule rule) {
    return port_rule_names.at(static_cast<std::size_t>(rule));
}
constexpr std::string_view rule_name(GidRule rule) {
    return gid_rule_names.at(static_cast<std::size_t>(rule));
}

/// Why a port is left out: `reason` continues "mlx5_3 port 1 ...": "is DOWN (Disabled): left out; bring its link up".
struct Exclusion {
    PortRule rule = PortRule::NotNamed;
    std::string reason;
};

} // namespace rdma_nccl
