// SPDX-License-Identifier: Apache-2.0
// How long bytes are waited for before they count as lost.
#pragma once

#include <chrono>
#include <cstdint>

namespace rdma_nccl {

/// So many bytes on the slowest link that is still believed to work: 0.1e9 bit/s, a tenth of Soft-RoCE on a busy CPU.
constexpr std::chrono::milliseconds slowest_transfer(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 12'500;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

/// A pattern of so many bytes made, or looked at, by a slow CPU, with the copy from or to a GPU: 1e8 bytes each second.
constexpr std::chrono::milliseconds slowest_pattern(std::uint64_t bytes) {
    constexpr std::uint64_t bytes_each_ms = 100'000;
    return std::chrono::milliseconds(bytes / bytes_each_ms);
}

} // namespace rdma_nccl
