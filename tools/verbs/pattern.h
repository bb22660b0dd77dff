// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma_nccl {

/// Fills memory with bytes that are unlikely to be there by chance: all words of eight bytes differ, also between
/// seeds. `offset`: offset of the first byte in the whole pattern, a multiple of 8.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::size_t offset);

/// Returns true if the bytes contain the pattern.
bool has_pattern(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t offset);

} // namespace rdma_nccl
