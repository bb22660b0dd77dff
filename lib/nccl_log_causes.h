// SPDX-License-Identifier: Apache-2.0
// Why RDMA was not used, or failed: messages of NCCL and what they mean, in words that say what to do. The texts are
// stable and hold nothing of one process, so that those of many are one.
#pragma once

#include <string_view>

namespace rdma_nccl {

/// The cause that a message names; empty for all that is no fault, as most warnings of NCCL are. `warning`: it was a
/// "NCCL WARN".
std::string_view nccl_cause(std::string_view text, bool warning);

/// GPUDirect RDMA is off at an HCA, as nvidia_peermem is not there. Connections may have it all the same, through
/// DMA-BUF.
inline constexpr std::string_view no_peer_memory_cause =
    "GPUDirect RDMA is off: load nvidia_peermem, or use NVIDIA's open kernel modules (DMA-BUF)";

/// A consequence, where another cause is known.
inline constexpr std::string_view no_transport_cause = "NCCL's RDMA transport could not start on a node";

} // namespace rdma_nccl
