// SPDX-License-Identifier: Apache-2.0
// What a node's sysfs and proc tell about its RDMA devices, network interfaces and GPUs: facts only, no decisions. For
// the layout of the files see the kernel's Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-net.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/base/lists.h"
#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "lib/sys/sysroot.h"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// ports/N/gid_attrs/types/I. The kernel prints "IB/RoCE v1" on InfiniBand ports too.
enum class GidType { RoceV1, RoceV2 };

/// Why a GID's type is unknown.
enum class TypeProblem {
    None,
    Unreadable, ///< EINVAL: the GID belongs to another network namespace
    Missing,    ///< no file: kernels before 4.5
    Strange,    ///< unknown text
};

/// A used slot of a port's GID table; empty slots (all zero) are not kept.
struct Gid {
    unsigned index = 0;
    IpAddress value; ///< IPv4 addresses are IPv4-mapped
    std::optional<GidType> type;
    TypeProblem type_problem = TypeProblem::None;
    std::string type_text; ///< if `type` is absent: the file's text, or the error of reading it
    std::string netdev;    ///< empty when the file is missing or unreadable
};

enum class LinkLayer { Unknown, InfiniBand, Ethernet };

struct Port {
    unsigned number = 1;
    std::string state;          ///< the name only: "ACTIVE", "DOWN", ...; empty when unreadable
    std::string physical_state; ///< "LinkUp", ...
    LinkLayer link_layer = LinkLayer::Unknown;
    double rate_gbps = 0;             ///< from the rate file; 0 when unreadable
    bool rate_is_default = false;     ///< the rate is what kernels and drivers print for a speed that they do not know
    double netdev_gbps = 0;           ///< speed of the port's netdev, 0 when unknown
    std::size_t gid_table_length = 0; ///< slots read, including empty ones: all slots unless reading stopped early
    std::vector<Gid> gids;
    std::vector<std::string> problems; ///< files that could not be read or parsed, as text

    /// Returns why the file "state" or the like, or the port's whole directory, could not be read; "" if it could.
    [[nodiscard]] std::string problem_with(std::string_view file) const;
    /// Returns the greater of the two rates, 0 when unknown. Rate files can be wrong: see `rate_is_default`.
    [[nodiscard]] double believable_rate_gbps() const { return std::max(rate_is_default ? 0 : rate_gbps, netdev_gbps); }
};

/// This process's access to the device file of an HCA's verbs.
enum class DeviceAccess {
    Unknown,       ///< a copied tree of another machine, without /dev, or it could not be checked
    Open,          ///< readable and writable
    NoVerbsDevice, ///< nothing in /sys/class/infiniband_verbs: ib_uverbs is not loaded
    Missing,       ///< there is a verbs device but no file for it: in a container
    Denied,        ///< no permission
};

struct Hca {
    std::string name;              ///< mlx5_0, rocep1s0, ...
    std::string node_type;         ///< "CA", "RNIC", ...; empty when unreadable
    std::string driver;            ///< mlx5_core, bnxt_en, efa, ...; empty for software devices, which have no parent
    std::string pci;               ///< "0000:53:00.0", empty without a PCI parent
    std::string pci_path;          ///< /sys/devices/... of the PCI function
    std::optional<int> numa_node;  ///< absent when unknown (-1)
    CpuSet local_cpus;             ///< the CPUs near it; empty when unknown
    std::string physical_function; ///< the PF's PCI address if this is a VF; else empty
    std::string node_guid;
    std::string system_image_guid;
    std::string firmware;    ///< "20.35.1012"
    std::string board;       ///< board_id, "MT_0000000223"; many drivers have none
    std::string device_file; ///< "/dev/infiniband/uverbs3"; empty without a verbs device
    DeviceAccess device_access = DeviceAccess::Unknown;
    bool answers = true;              ///< false: the driver hangs, so the ports' states and rates were not read
    std::vector<std::string> netdevs; ///< those of the PCI function (device/net) and of its GIDs
    std::vector<Port> ports;
    std::vector<std::string> problems;
};

struct InterfaceAddress {
    IpAddress address;
    unsigned prefix_length = 0; ///< for IPv4 addresses at most 32

    friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

struct Netdev {
    std::string name;
    unsigned ifindex = 0; ///< 0 when unreadable
    /// Position in the list of getifaddrs(3); smaller is earlier. The ifindex if only files were read, which gives the
    /// same order from Linux 6.9 on (before, the low byte of the ifindex comes first).
    unsigned order = 0;
    std::optional<unsigned> port; ///< port of the HCA on the same PCI function, from 1; absent without a function
    bool usb = false;             ///< connected by USB, as a baseboard management controller is
    bool up = false;              ///< IFF_UP and carrier
    bool loopback = false;
    bool bridge = false;
    unsigned mtu = 0;
    double speed_gbps = 0;           ///< 0 when unknown
    std::string pci_path;            ///< that of the PCI function; empty for virtual interfaces
    std::string upper;               ///< the bond, bridge or team that it belongs to (master link)
    std::vector<std::string> lowers; ///< the interfaces below: bond slaves, VLAN base, ...
    std::vector<InterfaceAddress> addresses;
};

/// A GPU as the PCI bus shows it, or a partition of one (AMD's CPX and others), as HIP counts it.
struct Gpu {
    std::string pci; ///< "0000:53:00.0"
    std::string pci_path;
    std::string vendor; ///< "nvidia", "amd"; empty: another's, which only a file of NCCL's can have
    std::optional<int> numa_node;
    CpuSet local_cpus;             ///< the CPUs near it; empty when unknown
    std::string device_file;       ///< "/dev/nvidia3", "/dev/dri/renderD131"; empty when unknown
    std::optional<unsigned> minor; ///< /dev/nvidiaN, from /proc/driver/nvidia/gpus/PCI/information
    std::string uuid;
    std::optional<unsigned> kfd_node; ///< of AMD's driver, in whose order HIP counts
    /// CUDA or HIP does not count it in this process: its driver has not started it, or a container or the device
    /// cgroup keeps it away.
    bool hidden = false;
};

struct Fabric {
    std::vector<Hca> hcas;
    std::vector<Netdev> netdevs;
    std::vector<Gpu> gpus; ///< of the vendor whose runtime ranks use, in the order in which CUDA or HIP counts them
    std::vector<std::string> default_route_netdevs;
    std::vector<std::string> problems; ///< of whole directories; a single bad file is noted at its item

    /// Returns how many GPUs CUDA or HIP counts in this process.
    [[nodiscard]] std::size_t count_gpus() const;
    /// Returns the GPUs on the bus: of the partitions of one, the first.
    [[nodiscard]] std::vector<Gpu> cards() const;
    /// Returns nullptr if there is none of that name.
    [[nodiscard]] const Hca* find_hca(std::string_view name) const;
    [[nodiscard]] const Port* find_port(std::string_view hca, unsigned number) const;
    /// Returns the first of `problems` with the RDMA devices as a whole; nullptr if there is none.
    [[nodiscard]] const std::string* hca_problem() const;
    [[nodiscard]] const Netdev* find_netdev(std::string_view name) const;
};

/// "mlx5_1:1", as NCCL_IB_HCA names a port.
std::string port_name(std::string_view hca, unsigned port);

// HCAs that do not respond. Reading a port's state asks the driver, and a driver with a hanging card may take minutes,
// in a sleep that no signal interrupts. A step must not wait for that.

using UnresponsiveHcas = std::set<std::string, std::less<>>;

/// The result of asking the HCAs.
struct HcaAnswers {
    UnresponsiveHcas unresponsive; ///< did not answer in time
    UnresponsiveHcas not_asked;    ///< unknown: the others used up the time
};

/// The time limit for a device: a working driver returns a port's state within milliseconds, even on a busy node.
inline constexpr std::chrono::milliseconds usual_timeout(5000);

/// Reads the state of each port in a child process (see lib/base/forked_worker.h) and returns the HCAs that took longer
/// than `limit`. Does not read the speed of interfaces: a process that hangs there holds a lock that all of the network
/// needs (RTNL). After four times `limit`, the remaining HCAs are not asked. Fails if no child starts or it ends early.
Result<HcaAnswers> ask_hcas(const SysRoot& root, std::chrono::milliseconds limit);

/// Like ask_hcas(), but HCAs that were not asked count as unresponsive.
Result<UnresponsiveHcas> find_unresponsive_hcas(const SysRoot& root, std::chrono::milliseconds limit);

/// Reads all of the above: at most 256 HCAs, 64 ports each, and 65,536 slots per GID table. Of the `unresponsive`
/// devices, reads only what their drivers are not needed for. `tables`: Expected stops at a table's expected entries,
/// which are enough for a plan (lib/fabric/gid_table.cpp), if the interfaces' addresses are known.
enum class GidTables { Whole, Expected };
Fabric read_fabric(const SysRoot& root, const UnresponsiveHcas& unresponsive = {}, GidTables tables = GidTables::Whole);

// Places in the PCI tree, from sysfs paths alone. In
// /sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:53:00.0
// the last element is a function; above it are a switch (0000:51:00.0 and 0000:52:04.0), a root port (0000:50:01.0) and
// a host bridge.

/// True for "0000:53:00.0". Domains may have more than four digits (VMD: 10000:01:00.0).
bool is_pci_address(std::string_view text);

/// Returns the part of a sysfs path up to its last PCI function, so that a virtio or auxiliary device counts as the
/// function that carries it. Empty when there is none.
std::string pci_function_path(std::string_view sysfs_path);

/// numa_node of a PCI function's directory; nullopt where the kernel does not know (-1).
std::optional<int> read_numa_node(const Directory& function);
/// local_cpulist there: the CPUs of its NUMA node, all where that is not known; empty when unreadable.
CpuSet read_local_cpus(const Directory& function);

/// Returns the host bridge, the root port and the switch ports above the function, as parts of `path`. Ignores what
/// precedes the first host bridge (an ACPI or VMBus node of a virtual machine): all devices have it in common.
using PciAncestors = std::vector<std::string_view>;
PciAncestors pci_ancestors(std::string_view path);

/// Counts the ancestors that two functions have in common; 0 if their host bridges differ or are unknown.
std::size_t common_pci_ancestors(const PciAncestors& a, const PciAncestors& b);

/// Counts the PCIe switches between two functions below the same root port; 0 on the same link (functions of one card).
/// Returns nullopt if they meet at the host bridge or above, or a path is unknown.
std::optional<unsigned> switches_between(const PciAncestors& a, const PciAncestors& b);

/// Returns the path from the host bridge to the root port above the function, or only the host bridge for a function
/// directly on it. Empty when there is none.
std::string root_port_of(std::string_view path);

/// Returns true if traffic between the two need not cross the host bridge. A root port has one link, so two functions
/// below the same root port meet in a PCIe switch (or are functions of one card).
bool share_pcie_switch(std::string_view path_a, std::string_view path_b);

} // namespace rdma_nccl
