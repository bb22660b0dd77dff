// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_notes.h"

#include <string>
#include <vector>

namespace rdma_nccl {

/// Fills Netdev::addresses: on the live root from getifaddrs(3), which is exact; in another tree from proc/net/if_inet6
/// and, for IPv4, from proc/net/fib_trie, which names no interface: that is found by the GID with the same address,
/// else by the most specific direct route; addresses that stay ambiguous are noted and left out.
void add_addresses(const Root& root, const std::vector<Hca>& hcas, std::vector<Netdev>& netdevs, Notes& notes);

/// The interfaces of the default routes with the lowest metric, IPv4's first, each once; never the loopback interface.
std::vector<std::string> read_default_route_netdevs(const Root& root, Notes& notes);

} // namespace rdma_nccl
