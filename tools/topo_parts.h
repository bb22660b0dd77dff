// SPDX-License-Identifier: Apache-2.0
// What the picture of a machine shows, as parts within parts: packages, NUMA nodes, cores, PCIe switches, GPUs, HCAs.
// Texts are as the machine tells them; who draws them escapes them.
#pragma once

#include "tools/node_plan.h"

#include <cstddef>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Where a part lies, in pixels.
struct Area {
    int x = 0;
    int y = 0;
    int width = 0;
    int height = 0;
};

/// In the order in which they stand within a part.
enum class PartKind {
    Machine,
    Package,
    Numa,
    Cache, ///< cores with a last-level cache in common
    Core,
    Share,  ///< the CPUs that ranks have of a NUMA node
    Memory, ///< a NUMA node without cores
    Gpu,
    Hca,
    Card,   ///< functions on one link
    Switch, ///< of PCIe
    HostBridge,
    Elsewhere, ///< devices of which the machine does not tell where they are
};

struct Part {
    PartKind kind = PartKind::Machine;
    std::string label;
    std::string detail;
    std::string hint;               ///< for who points at it
    std::vector<std::size_t> ranks; ///< local ranks that have it
    bool used = true;
    std::vector<Part> parts;
    Area area; ///< set by lay_out()
};

Part make_part(PartKind kind, std::string label, std::string detail = "", std::string hint = "");

/// The whole machine; without areas.
Part machine_parts(const NodePlan& node);

/// A tree of PCI, or a device without one, and the CPUs near to it.
struct DeviceTree {
    Part part;
    CpuSet cpus; ///< empty when unknown
};

/// Host bridges with what is below them. A switch with one thing below it decides nothing and is left out.
std::vector<DeviceTree> device_trees(const NodePlan& node);

/// "0,1,5"
std::string number_list(const std::vector<std::size_t>& numbers);

} // namespace rdma_nccl
