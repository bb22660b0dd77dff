// SPDX-License-Identifier: Apache-2.0
// Places in the PCI tree, from sysfs paths alone:
// /sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:53:00.0
// is a function (last) below a switch (0000:51:00.0 and 0000:52:04.0) below a root port (0000:50:01.0) of a host
// bridge.
#pragma once

#include "lib/cpu_set.h"
#include "lib/root.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// "0000:53:00.0"; domains may have more than four digits (VMD: 10000:01:00.0).
bool is_pci_address(std::string_view text);

/// The part of a sysfs path up to its last PCI function: a virtio or auxiliary device counts as the function that
/// carries it. Empty when there is none.
std::string pci_function_path(std::string_view sysfs_path);

/// numa_node of a PCI function's directory; nullopt where the kernel does not know (-1).
std::optional<int> read_numa_node(const Directory& function);
/// local_cpulist there: the CPUs of its NUMA node, all where that is not known; empty when unreadable.
CpuSet read_local_cpus(const Directory& function);

/// Host bridge, root port and switch ports above the function, parts of `path`. What stands before the first host
/// bridge (an ACPI or VMBus node of a virtual machine) is common to everything and says nothing.
std::vector<std::string_view> pci_ancestors(std::string_view path);

/// How many of host bridge, root port and switch ports stand above both functions; 0: other host bridges, or unknown.
std::size_t common_pci_ancestors(std::string_view path_a, std::string_view path_b);

/// How many PCIe switches stand between two functions below the same root port; 0 on the same link (functions of one
/// card). nullopt when they meet at the host bridge or above, or one path is unknown.
std::optional<unsigned> switches_between(std::string_view path_a, std::string_view path_b);

/// The path down to the root port that the function hangs on; for one directly on the host bridge, down to that. Empty
/// when there is none.
std::string root_port_of(std::string_view path);

/// Traffic between the two need not cross the host bridge: a root port has one link, so two functions below the same
/// one meet in a PCIe switch (or are functions of one card).
bool share_pcie_switch(std::string_view path_a, std::string_view path_b);

} // namespace rdma_nccl
