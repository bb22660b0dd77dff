// SPDX-License-Identifier: Apache-2.0
// Evaluates places in the PCI tree from sysfs paths alone. In
// /sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:53:00.0
// the last element is a function; above it are a switch (0000:51:00.0 and 0000:52:04.0), a root port (0000:50:01.0) and
// a host bridge.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/sys/sysroot.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

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
std::vector<std::string_view> pci_ancestors(std::string_view path);

/// Counts the pci_ancestors() that two functions have in common; 0 if their host bridges differ or are unknown.
std::size_t common_pci_ancestors(std::string_view path_a, std::string_view path_b);

/// Counts the PCIe switches between two functions below the same root port; 0 on the same link (functions of one card).
/// Returns nullopt if they meet at the host bridge or above, or a path is unknown.
std::optional<unsigned> switches_between(std::string_view path_a, std::string_view path_b);

/// Returns the path from the host bridge to the root port above the function, or only the host bridge for a function
/// directly on it. Empty when there is none.
std::string root_port_of(std::string_view path);

/// Returns true if traffic between the two need not cross the host bridge. A root port has one link, so two functions
/// below the same root port meet in a PCIe switch (or are functions of one card).
bool share_pcie_switch(std::string_view path_a, std::string_view path_b);

} // namespace rdma_nccl
