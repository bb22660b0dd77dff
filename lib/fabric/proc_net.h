// SPDX-License-Identifier: Apache-2.0
// Parses the tables of /proc/net that list addresses and routes. All functions accept any bytes and skip lines that
// they cannot parse. The formats are those of the kernel's net/ipv4/fib_trie.c, net/ipv6/route.c and
// net/ipv6/addrconf.c.
#pragma once

#include "lib/net/ip.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

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
