// SPDX-License-Identifier: Apache-2.0
// The GPUs and HCAs in a topology of hwloc's that has devices: for machines that are known by an XML file alone.
#pragma once

#include "lib/fabric.h"
#include "lib/hwloc_library.h"

#ifdef HAVE_HWLOC

namespace rdma_nccl {

/// GPUs of NVIDIA and AMD by PCI class and vendor; HCAs by OS devices of the kind OpenFabrics, with ports and states as
/// far as the file tells them. The PCI paths are written as /sys/devices/... would be.
Fabric read_hwloc_devices(const HwlocLibrary& hwloc, hwloc_topology_t topology);

} // namespace rdma_nccl

#endif
