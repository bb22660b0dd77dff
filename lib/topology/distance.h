// SPDX-License-Identifier: Apache-2.0
// Measures how far a machine's devices and CPUs are from each other, in the steps that cost bandwidth.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/fabric/fabric.h"
#include "lib/topology/topology.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Ordered from near to far.
enum class Distance {
    SameDevice,      ///< functions of one card
    OneSwitch,       ///< through one PCIe switch
    SeveralSwitches, ///< through several PCIe switches, but no host bridge
    HostBridge,      ///< through a host bridge of the CPU
    SameNuma,        ///< between host bridges of one NUMA node
    SamePackage,     ///< between NUMA nodes of one package
    Other,           ///< between packages
    Unknown,         ///< the machine does not tell; common in virtual machines
};

/// Returns the word of `nvidia-smi topo -m`: PIX, PXB, PHB, NODE or SYS. Also PKG for another NUMA node of the same
/// package, which nvidia-smi counts as SYS, and "?" for unknown.
std::string_view distance_word(Distance distance);
/// Returns "one PCIe switch", "another package", ...
std::string_view distance_text(Distance distance);
/// Returns the name for JSON: "one-switch", ...
std::string_view distance_name(Distance distance);

/// The location of a device.
struct Place {
    std::string pci_path; ///< /sys/devices/...; empty when unknown
    CpuSet cpus;          ///< the CPUs near it; empty when unknown
};

/// Returns the place of a device. If the device has no NUMA node but claims to be near all CPUs of several nodes, its
/// firmware does not tell: its CPUs are then unknown.
Place place_of(const Gpu& gpu, const Topology& topology);
Place place_of(const Hca& hca, const Topology& topology);

Distance distance_between(const Place& a, const Place& b, const Topology& topology);
/// Returns the distance to the farthest of the CPUs: SameNuma, SamePackage, Other or Unknown.
Distance distance_to_cpus(const Place& device, const CpuSet& cpus, const Topology& topology);

// Which HCAs are near which GPU, and which one each rank takes first.

/// distances[i][j] is the distance from device i to HCA j.
using DistanceTable = std::vector<std::vector<Distance>>;
DistanceTable distances_to_hcas(std::span<const Place> devices, std::span<const Place> hcas, const Topology& topology);

/// True when the table tells which HCAs are near. False when several devices are equally far from all of several HCAs,
/// as in virtual machines with a flat PCI tree.
bool nearness_known(const DistanceTable& distances);

/// Returns all HCAs for each device, nearest first. Spreads the devices over equally near HCAs, so that as few as
/// possible share the same first HCA.
std::vector<std::vector<std::size_t>> order_hcas(const DistanceTable& distances);

} // namespace rdma_nccl
