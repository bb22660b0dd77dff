// SPDX-License-Identifier: Apache-2.0
// Which HCAs are near to which GPU, and which one each rank takes first.
#pragma once

#include "lib/distance.h"

#include <cstddef>
#include <span>
#include <vector>

namespace rdma_nccl {

/// distances[i][j]: from device i to HCA j.
using DistanceTable = std::vector<std::vector<Distance>>;
DistanceTable distances_to_hcas(std::span<const Place> devices, std::span<const Place> hcas, const Topology& topology);

/// Whether the table tells anything: not where several devices are equally far from all of several HCAs, as in virtual
/// machines with a flat PCI tree.
bool tells_nearness(const DistanceTable& distances);

/// For each device all HCAs, nearest first. Among equally near ones the devices share: as few as can be have the same
/// HCA first.
std::vector<std::vector<std::size_t>> order_hcas(const DistanceTable& distances);

} // namespace rdma_nccl
