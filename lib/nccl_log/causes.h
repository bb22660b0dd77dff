// SPDX-License-Identifier: Apache-2.0
// Maps NCCL's messages to the causes of RDMA not being used or failing, with a remedy. The texts are fixed and contain
// nothing specific to one process, so equal causes of many processes can be merged.
#pragma once

#include <string_view>

namespace rdma_nccl {

/// Returns the cause that a message reports. Returns an empty text for a message that reports no fault, which includes
/// most of NCCL's warnings. `warning`: the message is an "NCCL WARN".
std::string_view nccl_cause(std::string_view text, bool warning);

/// GPUDirect RDMA is off for an HCA because nvidia_peermem is not loaded. Connections may still use it through DMA-BUF.
inline constexpr std::string_view no_peer_memory_cause =
    "GPUDirect RDMA is off: load nvidia_peermem, or use NVIDIA's open kernel modules (DMA-BUF)";

/// Only a consequence if another cause is known.
inline constexpr std::string_view no_transport_cause = "NCCL's RDMA transport could not start on a node";

} // namespace rdma_nccl
