// SPDX-License-Identifier: Apache-2.0
// CPUs, caches and memory as the kernel's files describe them.
#pragma once

#include "lib/topology/topology.h"

namespace rdma_nccl {

/// Reads what read_topology() reads without hwloc, in the order in which hwloc has cores, as far as no NUMA distances
/// group them: for the start of a step and of ranks, because hwloc opens up to 15 files of each CPU (18 ms of CPU time
/// of a DGX H100, this 2 ms), and for machines and containers without it. Fails if the kernel's files are not there.
Result<Topology> read_sysfs_topology(const SysRoot& root);

/// Reads which cores share an L3 cache, and puts them side by side, as they are in a tree with caches, in which Slurm
/// numbers cores.
void find_l3_caches(const SysRoot& root, Topology& topology);

} // namespace rdma_nccl
