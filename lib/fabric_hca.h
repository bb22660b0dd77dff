// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_notes.h"

#include <string>
#include <vector>

namespace rdma_nccl {

/// The RDMA devices of /sys/class/infiniband with ports and GID tables, in natural order of their names. What concerns
/// no single device goes to `notes`. Hca::netdevs is filled, Port::netdev_gbps is not.
std::vector<Hca> read_hcas(const Root& root, const SilentHcas& silent, Notes& notes);

/// Only where it hangs: name, PCI path, NUMA node, local CPUs, driver; asks no driver of a device.
Hca read_hca_place(const Root& root, const std::string& name);

} // namespace rdma_nccl
