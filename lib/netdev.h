// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_notes.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

using SilentNetdevs = std::set<std::string, std::less<>>;

/// The interfaces of /sys/class/net with everything but their addresses.
std::vector<Netdev> read_netdevs(const Root& root, const SilentNetdevs& silent, Notes& notes);

/// A bridge with nothing below it that stands on hardware: of containers (docker0, cni0) or virtual machines (virbr0)
/// of this host. Other hosts have one with the same address, and none of them can be reached through it.
bool is_host_bridge(const std::vector<Netdev>& netdevs, std::string_view name);

/// What `rdma-nccl explain --save` adds to a tree, as no file of the kernel tells an interface's IPv4 addresses.
inline constexpr std::string_view saved_addresses_path = "/ip-addresses";

/// Fills Netdev::addresses: on the live root from getifaddrs(3), which is exact; in a saved tree from the file above.
/// False: no such file.
bool add_known_addresses(const Root& root, std::vector<Netdev>& netdevs, Notes& notes);

/// For other trees: from proc/net/if_inet6 and, for IPv4, proc/net/fib_trie. It names no interface, so look for the
/// GID with the same address, else for the most specific direct route; ambiguous addresses are noted and left
/// out.
void add_copied_addresses(const Root& root, const std::vector<Hca>& hcas, std::vector<Netdev>& netdevs, Notes& notes);

/// The interfaces of the IPv4 default routes with the lowest metric, each once; where there is none, of IPv6's: routers
/// that announce themselves on the rails make default routes there that nobody means. Never the loopback interface.
std::vector<std::string> read_default_route_netdevs(const Root& root, Notes& notes);

} // namespace rdma_nccl
