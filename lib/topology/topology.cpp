// SPDX-License-Identifier: Apache-2.0
#include "lib/topology/topology.h"

#include "lib/base/lists.h"

#include <algorithm>

namespace rdma_nccl {

CpuSet Topology::cpus() const {
    CpuSet all;
    for (const auto& core : cores) {
        all |= core.cpus;
    }
    return all;
}

const NumaNode* Topology::find_numa_node(unsigned number) const {
    return find_by(numa_nodes, &NumaNode::number, number);
}

CpuSet Topology::packages_of(const CpuSet& cpus) const {
    std::vector<bool> wanted(packages);
    for (const auto& core : cores) {
        if (core.package < packages && core.cpus.intersects(cpus)) {
            wanted[core.package] = true;
        }
    }
    CpuSet result;
    for (const auto& core : cores) {
        if (core.package < packages && wanted[core.package]) {
            result |= core.cpus;
        }
    }
    return result;
}

std::size_t Topology::count_cores(const CpuSet& cpus) const {
    return static_cast<std::size_t>(
        std::count_if(cores.begin(), cores.end(), [&](const Core& core) { return core.cpus.intersects(cpus); }));
}

} // namespace rdma_nccl
