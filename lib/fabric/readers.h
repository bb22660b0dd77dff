// SPDX-License-Identifier: Apache-2.0
// Reads the parts of a Fabric.
#pragma once

#include "lib/base/text.h"
#include "lib/fabric/fabric.h"

#include <cstdint>

namespace rdma_nccl {

/// The most HCAs of a machine that are looked at: more than any node has.
inline constexpr std::size_t most_hcas = 256;

/// Reads the RDMA devices in /sys/class/infiniband with their ports, in natural order of names. Adds problems that
/// concern no single device to `notes`. Hca::netdevs gets those of the PCI function only; GID tables and
/// Port::netdev_gbps are not read.
std::vector<Hca> read_hcas(const SysRoot& root, const UnresponsiveHcas& unresponsive, Notes& notes);

/// Reads the GID tables, and adds their interfaces to Hca::netdevs. With `netdevs` (complete with addresses), reads
/// each table only until all entries that it must have are found; otherwise to its end.
void read_gid_tables(const SysRoot& root, Hca& hca, const std::vector<Netdev>* netdevs = nullptr);

/// Reads only a device's location: PCI path, NUMA node, local CPUs and driver. Never queries a device's driver.
Hca read_hca_place(const SysRoot& root, const std::string& name);

/// Returns false if this network namespace surely lacks the interface. A container may see the node's /sys, so of a
/// live root the kernel is asked.
bool may_have_netdev(const SysRoot& root, const std::string& name);

/// Reads the interfaces of /sys/class/net without their addresses, and the `unresponsive` ones without their speed.
std::vector<Netdev> read_netdevs(const SysRoot& root, const std::set<std::string, std::less<>>& unresponsive,
                                 Notes& notes);

/// Returns true for a bridge that has no hardware below it. Such a bridge serves containers (docker0, cni0) or virtual
/// machines (virbr0) of this host. Other hosts have one with the same address, and it leads to none of them.
bool is_virtual_bridge(const std::vector<Netdev>& netdevs, std::string_view name);

/// Written by `rdma-nccl explain --save`, because no file of the kernel lists an interface's IPv4 addresses.
inline constexpr std::string_view saved_addresses_path = "/ip-addresses";

/// Fills Netdev::addresses from getifaddrs(3), in a saved tree from the file above. Returns false if it has none.
bool add_known_addresses(const SysRoot& root, std::vector<Netdev>& netdevs, Notes& notes);

/// Fills Netdev::addresses in other trees: from proc/net/if_inet6 and, for IPv4, proc/net/fib_trie. The latter names no
/// interface, so uses the interface of the GID with the same address, else of the most specific direct route. Ambiguous
/// addresses are noted and left out.
void add_copied_addresses(const SysRoot& root, const std::vector<Hca>& hcas, std::vector<Netdev>& netdevs,
                          Notes& notes);

/// Returns the interfaces of the IPv4 default routes with the lowest metric, each once. Uses the IPv6 default routes
/// only if there are none for IPv4: routers that announce themselves on the rails cause unintended default routes
/// there. Never returns the loopback interface.
std::vector<std::string> read_default_route_netdevs(const SysRoot& root, Notes& notes);

/// Reads the GPUs of NVIDIA or AMD on the PCI bus: NVIDIA's in the order of their addresses, AMD's in that of KFD's
/// nodes, if KFD tells.
std::vector<Gpu> read_gpus(const SysRoot& root, Notes& notes);

/// Keeps the GPUs of the vendor that has more of them; of NVIDIA, if both have as many. The others are there for a
/// display or for management, as AMD's in a processor beside NVIDIA's cards; CUDA or HIP does not count them. Returns
/// a note on each of the others.
std::vector<std::string> keep_one_vendor(std::vector<Gpu>& gpus);

/// The nodes of AMD's compute driver: a directory for each CPU and GPU (Linux, amdkfd/kfd_topology.c).
inline constexpr std::string_view kfd_nodes = "/sys/class/kfd/kfd/topology/nodes";

/// Returns a number of a "properties" file there, which has lines of "NAME NUMBER"; 0 if it is not there.
std::uint64_t kfd_number(std::string_view properties, std::string_view name);

/// Returns "nvidia" or "amd" if a device of this PCI class ("0x030200") and vendor ("0x10de") may be a GPU; else "".
std::string gpu_vendor(std::string_view pci_class, std::string_view vendor);

/// proc/driver/nvidia/gpus/PCI/information, which has lines of "Name: value".
struct NvidiaInformation {
    std::optional<unsigned> minor;
    std::string uuid;
};
NvidiaInformation parse_nvidia_information(std::string_view text);

/// The file that shows that a peer memory client is loaded, through which the HCA's driver reaches GPU memory: the
/// modules of NVIDIA's driver, or a client that OFED's ib_core lists (as ncclIbGdrSupport looks for them, NCCL 2.28
/// src/transport/net_ib.cc; amdkfd is AMD's). Empty when there is none; DMA-BUF needs none.
std::string find_peer_memory(const SysRoot& root);

} // namespace rdma_nccl
