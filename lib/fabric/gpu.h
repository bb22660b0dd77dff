// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/bounded_notes.h"
#include "lib/fabric/fabric.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Reads the GPUs of NVIDIA and AMD on the PCI bus, in order of PCI address. NVIDIA's driver provides the minor number
/// and the UUID.
std::vector<Gpu> read_gpus(const SysRoot& root, Notes& notes);

/// Returns "nvidia" or "amd" if a device of this PCI class ("0x030200") and vendor ("0x10de") may be their GPU; else
/// "".
std::string gpu_vendor(std::string_view pci_class, std::string_view vendor);

/// The file that shows that a peer memory client is loaded, through which the HCA's driver reaches GPU memory: the
/// modules of NVIDIA's driver, or a client that OFED's ib_core lists (as ncclIbGdrSupport looks for them, NCCL 2.28
/// src/transport/net_ib.cc; amdkfd is AMD's). Empty when there is none; DMA-BUF needs none.
std::string find_peer_memory(const SysRoot& root);

/// proc/driver/nvidia/gpus/PCI/information, which has lines of "Name: value".
struct NvidiaInformation {
    std::optional<unsigned> minor;
    std::string uuid;
};
NvidiaInformation parse_nvidia_information(std::string_view text);

} // namespace rdma_nccl
