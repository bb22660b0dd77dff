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

/// A bridge with nothing below it that stands on hardware: of containers (docker0, cni0) or virtual machines (virbr0)
/// of this host. Other hosts have one with the same address, and none of them can be reached through it.
bool is_host_bridge(const std::vector<Netdev>& netdevs, std::string_view name);

} // namespace rdma_nccl
