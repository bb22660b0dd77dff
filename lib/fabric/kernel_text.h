// SPDX-License-Identifier: Apache-2.0
// Parses the texts of the kernel's files: single values of an RDMA device in sysfs, and the tables of /proc/net that
// list addresses and routes. All functions accept any bytes, and skip lines of a table that they cannot parse. The
// formats of the tables are those of net/ipv4/fib_trie.c, net/ipv6/route.c and net/ipv6/addrconf.c.
#pragma once

#include "lib/fabric/fabric.h"

#include <cstdint>

namespace rdma_nccl {

/// Parses gids/I: exactly eight groups of four hex digits ("fe80:0000:0000:0000:0e42:a1ff:fe2b:3c4d").
std::optional<IpAddress> parse_gid(std::string_view text);
/// Writes a GID in the same form, as sysfs prints it.
std::string gid_text(const IpAddress& gid);

struct Rate {
    double gbps = 0; ///< above 0, at most a million
    /// "10 Gb/sec (4X)", "10 Gb/sec (4X SDR)" or "2.5 Gb/sec (1X SDR)": what a kernel prints for a port whose speed is
    /// newer than the kernel, and some drivers always do. Real links of these speeds went out of use before RDMA was
    /// used with GPUs (doc/facts/link-rate.md).
    bool is_default = false;
};
/// Parses rate: "200 Gb/sec (4X HDR)" gives 200, "2.5 Gb/sec (1X SDR)" gives 2.5.
std::optional<Rate> parse_rate(std::string_view text);

/// Parses state, phys_state and node_type: "4: ACTIVE" gives "ACTIVE", any other text itself; made printable.
std::string parse_enum_name(std::string_view text);

LinkLayer parse_link_layer(std::string_view text);
/// Returns "InfiniBand", "Ethernet" or "Unknown", as in the file.
std::string link_layer_text(LinkLayer layer);

/// Parses gid_attrs/types/I: "IB/RoCE v1" (older kernels: "RoCE v1") or "RoCE v2".
std::optional<GidType> parse_gid_type(std::string_view text);

/// Parses a decimal number without sign or leading zeros, so that no two names mean the same number.
std::optional<unsigned> parse_index(std::string_view text);

/// Compares runs of digits as numbers: mlx5_2 comes before mlx5_10.
bool natural_name_less(std::string_view a, std::string_view b);

/// A usable unicast route. Reject, blackhole and unreachable routes are not returned.
struct Route {
    std::string netdev;
    IpPrefix destination;
    bool direct = false; ///< no gateway: the destination is on the interface's own link
    std::uint32_t metric = 0;
};

/// Parses proc/net/route. It prints addresses in the byte order of the machine, which is assumed to be ours.
std::vector<Route> parse_ipv4_routes(std::string_view text);
/// Parses proc/net/ipv6_route.
std::vector<Route> parse_ipv6_routes(std::string_view text);

/// Returns the local addresses in proc/net/fib_trie, each once, in the order of the file.
std::vector<IpAddress> parse_fib_trie(std::string_view text);

struct NetdevAddress {
    std::string netdev;
    IpAddress address;
    unsigned prefix_length = 0;
};
/// Parses lines like "eth0 10.0.0.7/24".
std::vector<NetdevAddress> parse_saved_addresses(std::string_view text);

/// Parses proc/net/if_inet6. Skips addresses that have not passed duplicate address detection.
std::vector<NetdevAddress> parse_if_inet6(std::string_view text);

} // namespace rdma_nccl
