// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/traffic.h"

#include <vector>

namespace rdma_nccl {

/// The interfaces whose bytes are those of the node's sockets (TrafficSources says which).
std::vector<NetdevSource> netdev_sources(const Root& root, const Fabric& fabric);

/// rxe or siw: RDMA in software, on an interface that counts it.
bool is_software(const Hca& hca);

/// The interfaces that a software HCA stands on; usually one.
std::vector<std::string> netdevs_below(const Root& root, const Fabric& fabric, const Hca& hca);

/// The path MTU of RoCE on an interface with this MTU: the largest of 256 to 4096 that fits in it with the headers
/// (drivers/infiniband/sw/rxe: RXE_MAX_HDR_LENGTH, eth_mtu_int_to_enum). 1024, as on plain Ethernet, for 0 (unknown).
unsigned path_mtu(unsigned netdev_mtu);

} // namespace rdma_nccl
