// SPDX-License-Identifier: Apache-2.0
// The topology by hwloc: of this machine, of a copied one below a root, or from an XML file of hwloc's.
#pragma once

#include "lib/fabric.h"
#include "lib/result.h"
#include "lib/root.h"
#include "lib/topology.h"

#include <string>

namespace rdma_nccl {

/// The file below a root that holds its topology as hwloc's XML; read in the place of /sys where it is there.
inline constexpr std::string_view topology_file = "/topology.xml";

/// CPUs, caches and memory. Without hwloc's search for devices, which takes four times as long and asks drivers that
/// may hang: lib/fabric.h has read them, with a guard. Fails when hwloc is not there or cannot read the machine.
Result<Topology> read_topology(const Root& root);

/// A machine that is known by an XML file alone.
struct XmlMachine {
    Topology topology;
    Fabric fabric; ///< GPUs, and HCAs with the ports that the file calls active; no GIDs, no interfaces
};
Result<XmlMachine> read_topology_xml(const std::string& path);

/// The topology, with devices, as hwloc writes it: for who looks at it elsewhere.
Result<std::string> export_topology(const Root& root);

} // namespace rdma_nccl
