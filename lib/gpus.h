// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/fabric.h"
#include "lib/fabric_notes.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Reads the GPUs of NVIDIA and AMD on the PCI bus, in order of PCI address. NVIDIA's driver provides the minor number
/// and the UUID.
std::vector<Gpu> read_gpus(const Root& root, Notes& notes);

/// Returns "nvidia" or "amd" if a device of this PCI class ("0x030200") and vendor ("0x10de") may be their GPU; else
/// "".
std::string gpu_vendor(std::string_view pci_class, std::string_view vendor);

/// proc/driver/nvidia/gpus/PCI/information, which has lines of "Name: value".
struct NvidiaInformation {
    std::optional<unsigned> minor;
    std::string uuid;
};
NvidiaInformation parse_nvidia_information(std::string_view text);

} // namespace rdma_nccl
