// SPDX-License-Identifier: Apache-2.0
// The content of the picture of a machine, as nested parts: packages, NUMA nodes, cores, PCIe switches, GPUs, HCAs.
// Texts are unescaped; the drawing code must escape them.
#pragma once

#include "tools/html/svg.h"
#include "tools/node/node_plan.h"

#include <cstddef>
#include <string>
#include <vector>

namespace rdma_nccl {

/// In the order of their position within a part.
enum class PartKind {
    Machine,
    Package,
    Numa,
    Cache, ///< cores with a common last-level cache
    Core,
    Share,  ///< a set of CPUs of a NUMA node that ranks have
    Memory, ///< a NUMA node without cores
    Gpu,
    Hca,
    Card,   ///< functions on one link
    Switch, ///< of PCIe
    HostBridge,
    Elsewhere, ///< devices whose place the machine does not report
};

struct Part {
    PartKind kind = PartKind::Machine;
    std::string label;
    std::string detail;
    std::string hint;               ///< shown when the pointer is on the part
    std::vector<std::size_t> ranks; ///< local ranks that use it
    bool used = true;
    std::vector<Part> parts;
    Area area; ///< set by lay_out()
};

Part make_part(PartKind kind, std::string label, std::string detail = "", std::string hint = "");

/// Returns the whole machine, without areas.
Part machine_parts(const NodePlan& node);

/// A PCI tree, or a device without one, and the CPUs near to it.
struct DeviceTree {
    Part part;
    CpuSet cpus; ///< empty when unknown
};

/// Returns the host bridges with the devices below them. A switch with one device below it makes no difference to
/// distances and is left out.
std::vector<DeviceTree> device_trees(const NodePlan& node);

/// Returns text like "0,1,5".
std::string number_list(const std::vector<std::size_t>& numbers);

} // namespace rdma_nccl
