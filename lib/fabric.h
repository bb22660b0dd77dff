// SPDX-License-Identifier: Apache-2.0
// What a node's sysfs and proc say about its RDMA devices, network interfaces and GPUs: facts only, no decision.
// Layout of the files: kernel Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-class-net.
#pragma once

#include "lib/cpu_set.h"
#include "lib/ip.h"
#include "lib/result.h"
#include "lib/root.h"
#include "lib/silent_devices.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// ports/N/gid_attrs/types/I. On an InfiniBand port the kernel prints "IB/RoCE v1" too.
enum class GidType { RoceV1, RoceV2 };

/// Why a GID's type is not known.
enum class TypeProblem {
    None,
    Unreadable, ///< EINVAL: the GID is of another network namespace
    Missing,    ///< no file: kernels before 4.5
    Strange,    ///< a text that we do not know
};

/// One used slot of a port's GID table; empty slots (all zero) are not kept.
struct Gid {
    unsigned index = 0;
    IpAddress value; ///< IPv4-mapped for an IPv4 address
    std::optional<GidType> type;
    TypeProblem type_problem = TypeProblem::None;
    std::string type_text; ///< what the file says, or the error of reading it, when `type` is absent
    std::string netdev;    ///< empty when the file is missing or unreadable
};

enum class LinkLayer { Unknown, InfiniBand, Ethernet };

struct Port {
    unsigned number = 1;
    std::string state;          ///< the name only: "ACTIVE", "DOWN", ...; empty when unreadable
    std::string physical_state; ///< "LinkUp", ...
    LinkLayer link_layer = LinkLayer::Unknown;
    double rate_gbps = 0;             ///< as the rate file says, 0 when unreadable
    bool rate_is_default = false;     ///< it is what kernels and drivers print for a speed that they do not know
    double netdev_gbps = 0;           ///< speed of the port's netdev, 0 when unknown
    std::size_t gid_table_length = 0; ///< slots read, empty ones too: all slots unless reading stopped early
    std::vector<Gid> gids;
    std::vector<std::string> problems; ///< files that could not be read or understood, in words

    /// The greater of the two, 0 when unknown: rate strings lie (doc/facts/link-rate.md).
    [[nodiscard]] double believable_rate_gbps() const;
};

/// Whether the device file of an HCA's verbs is there for this process.
enum class DeviceAccess {
    Unknown,       ///< another machine's tree, without /dev
    Open,          ///< readable and writable
    NoVerbsDevice, ///< nothing in /sys/class/infiniband_verbs: ib_uverbs is not loaded
    Missing,       ///< a verbs device, but no file for it: a container
    Denied,        ///< permissions
};

struct Hca {
    std::string name;              ///< mlx5_0, rocep1s0, ...
    std::string node_type;         ///< "CA", "RNIC", ...; empty when unreadable
    std::string driver;            ///< mlx5_core, bnxt_en, efa, ...; empty for software devices without a parent
    std::string pci;               ///< "0000:53:00.0", empty without a PCI parent
    std::string pci_path;          ///< /sys/devices/... of the PCI function
    std::optional<int> numa_node;  ///< absent when unknown (-1)
    CpuSet local_cpus;             ///< near to it; empty when unknown
    std::string physical_function; ///< PCI address of the PF, empty unless this is a VF
    std::string node_guid;
    std::string system_image_guid;
    std::string firmware;    ///< "20.35.1012"
    std::string board;       ///< board_id, "MT_0000000223"; many drivers have none
    std::string device_file; ///< "/dev/infiniband/uverbs3", empty without verbs device
    DeviceAccess device_access = DeviceAccess::Unknown;
    bool answers = true;              ///< false: its driver hangs, so the ports' states and rates were not read
    std::vector<std::string> netdevs; ///< of the PCI function (device/net) and of its GIDs
    std::vector<Port> ports;
    std::vector<std::string> problems;
};

struct InterfaceAddress {
    IpAddress address;
    unsigned prefix_length = 0; ///< of the address family

    friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

struct Netdev {
    std::string name;
    unsigned ifindex = 0; ///< 0 when unreadable
    /// Smaller is earlier in the list of getifaddrs(3): its place there; the ifindex where only files were read, which
    /// is the order from Linux 6.9 on (before, the low byte of the ifindex comes first).
    unsigned order = 0;
    std::optional<unsigned> port; ///< the port of the HCA on the same PCI function, from 1; absent without a function
    bool usb = false;             ///< hangs on USB, as a baseboard management controller does
    bool up = false;              ///< IFF_UP and carrier
    bool loopback = false;
    bool bridge = false;
    unsigned mtu = 0;
    double speed_gbps = 0;           ///< 0 when unknown
    std::string pci_path;            ///< of the PCI function, empty for virtual interfaces
    std::string upper;               ///< name of the bond, bridge or team this one belongs to (master link)
    std::vector<std::string> lowers; ///< interfaces below: bond slaves, VLAN base, ...
    std::vector<InterfaceAddress> addresses;
};

/// A GPU as PCI shows it.
struct Gpu {
    std::string pci; ///< "0000:53:00.0"
    std::string pci_path;
    std::string vendor; ///< "nvidia", "amd"
    std::optional<int> numa_node;
    CpuSet local_cpus;             ///< near to it; empty when unknown
    std::string device_file;       ///< "/dev/nvidia3", "/dev/dri/renderD131"; empty when unknown
    std::optional<unsigned> minor; ///< /dev/nvidiaN, from /proc/driver/nvidia/gpus/PCI/information
    std::string uuid;
};

struct Fabric {
    std::vector<Hca> hcas;
    std::vector<Netdev> netdevs;
    std::vector<Gpu> gpus; ///< by PCI address
    std::vector<std::string> default_route_netdevs;
    std::vector<std::string> problems; ///< of whole directories; one bad file is noted at its item

    /// nullptr when there is none of that name.
    [[nodiscard]] const Hca* find_hca(std::string_view name) const;
    [[nodiscard]] const Netdev* find_netdev(std::string_view name) const;
};

/// Reads everything above below `root`. Never fails as a whole: what cannot be read is noted in `problems`.
/// Costs bounded work: at most 256 HCAs, 64 ports each, and 65,536 slots per GID table are looked at. Of `silent`
/// devices nothing is read that asks their drivers. `tables`: a plan needs only a table's expected entries
/// (lib/expected_gids.h), if the interfaces' addresses are known.
enum class GidTables { Whole, Expected };
Fabric read_fabric(const Root& root, const SilentHcas& silent = {}, GidTables tables = GidTables::Whole);

} // namespace rdma_nccl
