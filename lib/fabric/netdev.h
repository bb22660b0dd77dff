// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/bounded_notes.h"
#include "lib/fabric/fabric.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

using SilentNetdevs = std::set<std::string, std::less<>>;

/// Reads the interfaces of /sys/class/net without their addresses, and the `silent` ones without their speed.
std::vector<Netdev> read_netdevs(const SysRoot& root, const SilentNetdevs& silent, Notes& notes);

/// Returns true for a bridge that has no hardware below it. Such a bridge serves containers (docker0, cni0) or virtual
/// machines (virbr0) of this host. Other hosts have one with the same address, and it leads to none of them.
bool is_host_bridge(const std::vector<Netdev>& netdevs, std::string_view name);

/// Written by `rdma-nccl explain --save`, because no file of the kernel lists an interface's IPv4 addresses.
inline constexpr std::string_view saved_addresses_path = "/ip-addresses";

/// Fills Netdev::addresses: on the live root from getifaddrs(3), which is exact; in a saved tree from the file above.
/// Returns false if that file does not exist.
bool add_known_addresses(const SysRoot& root, std::vector<Netdev>& netdevs, Notes& notes);

/// Fills Netdev::addresses in other trees: from proc/net/if_inet6 and, for IPv4, proc/net/fib_trie. The latter names no
/// interface, so uses the interface of the GID with the same address, else of the most specific direct route. Ambiguous
/// addresses are noted and left out.
void add_copied_addresses(const SysRoot& root, const std::vector<Hca>& hcas, std::vector<Netdev>& netdevs,
                          Notes& notes);

/// Returns the interfaces of the IPv4 default routes with the lowest metric, each once. Uses the IPv6 default routes
/// only if there are none for IPv4: routers that announce themselves on the rails cause unintended default routes
/// there. Never returns the loopback interface.
std::vector<std::string> read_default_route_netdevs(const SysRoot& root, Notes& notes);

} // namespace rdma_nccl
