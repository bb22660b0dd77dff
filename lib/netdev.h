// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_notes.h"

#include <set>
#include <string>
#include <vector>

namespace rdma_nccl {

using SilentNetdevs = std::set<std::string, std::less<>>;

/// The interfaces of /sys/class/net with everything but their addresses (lib/netdev_addresses.h).
std::vector<Netdev> read_netdevs(const Root& root, const SilentNetdevs& silent, Notes& notes);

} // namespace rdma_nccl
