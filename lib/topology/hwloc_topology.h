// SPDX-License-Identifier: Apache-2.0
// Reads the topology with hwloc: of this machine, of a copied one below a root, or from an XML file of hwloc.
#pragma once

#include "lib/base/result.h"
#include "lib/fabric/fabric.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/topology.h"

#include <string>

namespace rdma_nccl {

/// A file below a root that holds its topology in hwloc's XML. If it exists, it is read instead of /sys.
inline constexpr std::string_view topology_file = "/topology.xml";

/// Reads CPUs, caches and memory. Skips hwloc's search for devices, which takes four times as long and queries drivers
/// that may hang; lib/fabric/fabric.h reads the devices, with protection against hangs. Fails if hwloc is missing or
/// cannot read the machine.
Result<Topology> read_topology(const SysRoot& root);

/// A machine of which there is only an XML file.
struct XmlMachine {
    Topology topology;
    Fabric fabric; ///< GPUs, and HCAs with the ports whose state the file has; no GIDs, no interfaces
};
Result<XmlMachine> read_topology_xml(const std::string& path);

/// Returns the topology with devices in hwloc's XML, to be examined on another machine.
Result<std::string> export_topology(const SysRoot& root);

} // namespace rdma_nccl
