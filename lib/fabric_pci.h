// SPDX-License-Identifier: Apache-2.0
// Places in the PCI tree, from sysfs paths alone:
// /sys/devices/pci0000:50/0000:50:01.0/0000:51:00.0/0000:52:04.0/0000:53:00.0
// is a function (last) below a switch (0000:51:00.0 and 0000:52:04.0) below a root port (0000:50:01.0) of a host
// bridge.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// "0000:53:00.0"; domains may have more than four digits (VMD: 10000:01:00.0).
bool is_pci_address(std::string_view text);

/// The part of a sysfs path up to its last PCI function: a virtio or auxiliary device counts as the function that
/// carries it. Empty when there is none.
std::string pci_function_path(std::string_view sysfs_path);

/// How many of host bridge, root port and switch ports stand above both functions; 0: other host bridges, or unknown.
std::size_t common_pci_ancestors(std::string_view path_a, std::string_view path_b);

/// The path down to the root port that the function hangs on; for one directly on the host bridge, down to that. Empty
/// when there is none.
std::string root_port_of(std::string_view path);

/// Traffic between the two need not cross the host bridge: a root port has one link, so two functions below the same
/// one meet in a PCIe switch (or are functions of one card).
bool share_pcie_switch(std::string_view path_a, std::string_view path_b);

} // namespace rdma_nccl
