// SPDX-License-Identifier: Apache-2.0
// How far devices and CPUs of a machine are from each other, in the steps that cost bandwidth.
#pragma once

#include "lib/cpu_set.h"
#include "lib/fabric.h"
#include "lib/topology.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// From near to far.
enum class Distance {
    SameDevice,      ///< functions of one card
    OneSwitch,       ///< through one PCIe switch
    SeveralSwitches, ///< through several, without the host bridge
    HostBridge,      ///< through a host bridge of the CPU
    SameNuma,        ///< between host bridges of one NUMA node
    SamePackage,     ///< between NUMA nodes of one package
    Other,           ///< between packages
    Unknown,         ///< the machine does not tell, as many virtual ones
};

/// The word of `nvidia-smi topo -m`: PIX, PXB, PHB, NODE, SYS; PKG for another NUMA node of the same package, which
/// nvidia-smi counts as SYS; "?" for unknown.
std::string_view distance_word(Distance distance);
/// "one PCIe switch", "another package", ...
std::string_view distance_text(Distance distance);
/// "one-switch", ...: for JSON.
std::string_view distance_name(Distance distance);

/// Where a device hangs.
struct Place {
    std::string pci_path; ///< /sys/devices/...; empty when unknown
    CpuSet cpus;          ///< near to it; empty when unknown
};

/// A device that is said to be near to all of several NUMA nodes has a firmware that does not tell.
Place place_of(const Gpu& gpu, const Topology& topology);
Place place_of(const Hca& hca, const Topology& topology);

Distance distance_between(const Place& a, const Place& b, const Topology& topology);
/// To the farthest of the CPUs: SameNuma, SamePackage, Other or Unknown.
Distance distance_to_cpus(const Place& device, const CpuSet& cpus, const Topology& topology);

// Which HCAs are near to which GPU, and which one each rank takes first.

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
