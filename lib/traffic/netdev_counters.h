// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/traffic/traffic.h"

#include <vector>

namespace rdma_nccl {

/// Returns the interfaces that count the node's socket traffic (see TrafficSources).
std::vector<NetdevSource> netdev_sources(const SysRoot& root, const Fabric& fabric);

/// Returns true for rxe and siw: RDMA in software, on an interface that counts it.
bool is_software(const Hca& hca);

/// Returns the interfaces below a software HCA; usually one.
std::vector<std::string> netdevs_below(const SysRoot& root, const Fabric& fabric, const Hca& hca);

/// Returns the path MTU of RoCE on an interface with this MTU: the largest of 256 to 4096 that fits with the headers
/// (drivers/infiniband/sw/rxe: RXE_MAX_HDR_LENGTH, eth_mtu_int_to_enum). Returns 1024, the value for plain Ethernet, if
/// the MTU is 0 (unknown).
unsigned path_mtu(unsigned netdev_mtu);

} // namespace rdma_nccl
