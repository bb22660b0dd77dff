// SPDX-License-Identifier: Apache-2.0
// A machine's CPUs and memory as plain values without hwloc's types, read with hwloc: of this machine, of a copied one
// below a root, or from an XML file of hwloc or NCCL. PCI devices are in lib/fabric/fabric.h.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/base/lists.h"
#include "lib/base/result.h"
#include "lib/fabric/fabric.h"
#include "lib/sys/sysroot.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// A physical core. If the machine shows no cores (some containers), each CPU counts as one.
struct Core {
    CpuSet cpus;                       ///< its hardware threads
    unsigned package = 0;              ///< number in the tree, from 0
    std::optional<unsigned> numa_node; ///< as the kernel numbers it
    std::optional<unsigned> l3 = {};   ///< cores with the same number share a last-level cache
};

struct NumaNode {
    unsigned number = 0; ///< as the kernel numbers it
    CpuSet cpus;         ///< the CPUs that it is near to; for memory of a GPU or CXL perhaps all of the machine
    std::uint64_t memory_mib = 0;
    unsigned package = 0; ///< the nearest package; 0 if it belongs to none
    bool special = false; ///< not a core's own: a device's memory, or high-bandwidth memory; used only on request
};

/// A way between GPUs beside PCIe. Whoever learns of one adds it to Topology::gpu_links.
struct GpuLink {
    enum class Kind { NvLink, Xgmi };

    std::string gpu;  ///< its PCI address
    std::string peer; ///< the other GPU's; empty: NVSwitches, which connect all GPUs that have such an entry
    Kind kind = Kind::NvLink;
    unsigned count = 0; ///< of links; 0: not known

    /// Returns the word of `nvidia-smi topo -m`, "NV12"; "NV" if the number is not known; "XGMI".
    [[nodiscard]] std::string word() const;
    friend bool operator==(const GpuLink&, const GpuLink&) = default;
};

struct Topology {
    std::vector<Core> cores; ///< in the order of the tree: neighbours share caches
    std::vector<NumaNode> numa_nodes;
    unsigned packages = 1;               ///< 0: NUMA nodes are all that is known, and each CPU counts as a core
    std::string source;                  ///< "hwloc 2.9.0" or a file name
    std::vector<GpuLink> gpu_links = {}; ///< as far as known: no link is in it also where nothing tells

    /// Returns all online CPUs.
    [[nodiscard]] CpuSet cpus() const {
        CpuSet all;
        for (const auto& core : cores) {
            all |= core.cpus;
        }
        return all;
    }
    /// Returns nullptr if there is no node of that number.
    [[nodiscard]] const NumaNode* find_numa_node(unsigned number) const {
        return find_by(numa_nodes, &NumaNode::number, number);
    }
    /// Returns how many cores have a CPU in the set.
    [[nodiscard]] std::size_t count_cores(const CpuSet& cpus) const {
        return static_cast<std::size_t>(
            std::ranges::count_if(cores, [&](const Core& core) { return core.cpus.intersects(cpus); }));
    }
};

/// Finds the links between GPUs. Refers to those of the topology.
class GpuLinks {
public:
    explicit GpuLinks(const Topology& topology);

    /// Returns how NVLink or XGMI connects two GPUs, by their PCI addresses, or nullopt.
    [[nodiscard]] std::optional<GpuLink> between(std::string_view gpu, std::string_view peer) const;

private:
    std::map<std::pair<std::string_view, std::string_view>, const GpuLink*> direct_; ///< by both, the lower one first
    std::map<std::string_view, unsigned> to_switches_;
};

/// A file below a root that holds its topology in XML. If it exists, read_topology() reads it instead of /sys.
inline constexpr std::string_view topology_file = "/topology.xml";

/// Reads CPUs, caches and memory. Skips hwloc's search for devices, which takes four times as long and queries drivers
/// that may hang; lib/fabric/fabric.h reads the devices, with protection against hangs. Without hwloc reads the
/// kernel's files by itself. Fails if the machine cannot be read.
Result<Topology> read_topology(const SysRoot& root);

/// A machine of which there is only an XML file.
struct XmlMachine {
    Topology topology;
    Fabric fabric; ///< GPUs, HCAs with the ports whose state the file has, names and places of interfaces; no GIDs
    std::string name = {};                 ///< of the host; the file's, if that is not in it
    std::vector<std::string> gpu_ids = {}; ///< the GPUs' numbers as far as they are in the file
    std::vector<std::string> notes = {};   ///< on what the file does not tell
};
/// Reads a file of hwloc or NCCL. Fails with the path and the reason.
Result<XmlMachine> read_topology_xml(const std::string& path);

/// Returns the topology with devices in XML, to be examined on another machine.
Result<std::string> export_topology(const SysRoot& root);

// How far a machine's devices and CPUs are from each other, in the steps that cost bandwidth.

/// Ordered from near to far.
enum class Distance {
    SameDevice,      ///< functions of one card
    OneSwitch,       ///< through one PCIe switch
    SeveralSwitches, ///< through several PCIe switches, but no host bridge
    HostBridge,      ///< through a host bridge of the CPU
    SameNuma,        ///< between host bridges of one NUMA node
    SamePackage,     ///< between NUMA nodes of one package
    OtherNuma,       ///< between NUMA nodes, where nothing tells of packages
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

// Which HCAs are near which GPU, and which one each rank takes first.

/// The distance from a device to an HCA, finer than its word: ordered from near to far for that device.
struct HcaDistance {
    Distance distance = Distance::Unknown;
    /// Of SeveralSwitches: the bridges between the device and the first one that the HCA is below too. A GPU may have a
    /// switch on its card, so all HCAs are several switches away: the nearest are at the next switch.
    unsigned bridges = 0;

    constexpr HcaDistance() = default;
    constexpr HcaDistance(Distance known, unsigned bridges_between = 0) : distance(known), bridges(bridges_between) {}
    constexpr operator Distance() const { return distance; }
    friend constexpr auto operator<=>(const HcaDistance&,
                                      const HcaDistance&) = default; // NOLINT(modernize-use-nullptr): clang-tidy 14
    friend constexpr bool operator==(const HcaDistance&, const HcaDistance&) = default;
    friend constexpr bool operator==(const HcaDistance& a, Distance b) { return a.distance == b; }
};

using DistanceTable = std::vector<std::vector<HcaDistance>>;

/// The distances in one machine.
class Distances {
public:
    explicit Distances(const Topology& topology);

    /// Returns the distance to the farthest of the CPUs: SameNuma, SamePackage, OtherNuma, Other or Unknown.
    [[nodiscard]] Distance to_cpus(const Place& device, const CpuSet& cpus) const;
    [[nodiscard]] HcaDistance between(const Place& a, const Place& b) const;
    /// distances[i][j] is the distance from device i to HCA j.
    [[nodiscard]] DistanceTable to_hcas(std::span<const Place> devices, std::span<const Place> hcas) const;
    /// Returns the CPUs of all packages that have one of `cpus`.
    [[nodiscard]] CpuSet packages_of(const CpuSet& cpus) const;

private:
    struct Located; // a place and what is above it

    [[nodiscard]] HcaDistance between(const Located& a, const Located& b) const;

    std::vector<CpuSet> packages_; ///< empty: nothing tells of packages
};

/// True when the table tells which HCAs are near. False when several devices are equally far from all of several HCAs,
/// as in virtual machines with a flat PCI tree.
bool nearness_known(const DistanceTable& distances);

/// Returns all HCAs for each device, nearest first. Spreads the devices over equally near HCAs, so that as few as
/// possible share the same first HCA.
std::vector<std::vector<std::size_t>> order_hcas(const DistanceTable& distances);

} // namespace rdma_nccl
