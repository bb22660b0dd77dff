// SPDX-License-Identifier: Apache-2.0
// The tables of /proc/net that tell addresses and routes, as values. All functions are total: any bytes may come in,
// and a line that is not understood is skipped. The formats are what net/ipv4/fib_trie.c, net/ipv6/route.c and
// net/ipv6/addrconf.c of the kernel print.
#pragma once

#include "lib/ip.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// One usable unicast route: reject, blackhole and unreachable routes are not given back.
struct Route {
    std::string netdev;
    IpPrefix destination;
    bool direct = false; ///< no gateway: the destination is on the interface's own link
    std::uint32_t metric = 0;
};

/// proc/net/route. Addresses are printed in the byte order of the machine, which is taken to be this one's.
std::vector<Route> parse_ipv4_routes(std::string_view text);
/// proc/net/ipv6_route.
std::vector<Route> parse_ipv6_routes(std::string_view text);

/// The local addresses of proc/net/fib_trie, each once, in the order of the file.
std::vector<IpAddress> parse_fib_trie(std::string_view text);

struct NetdevAddress {
    std::string netdev;
    IpAddress address;
    unsigned prefix_length = 0;
};
/// Lines "eth0 10.0.0.7/24".
std::vector<NetdevAddress> parse_saved_addresses(std::string_view text);

/// proc/net/if_inet6, without addresses that duplicate address detection has not passed.
std::vector<NetdevAddress> parse_if_inet6(std::string_view text);

} // namespace rdma_nccl
