// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma_nccl {

/// Bytes that nobody else writes by chance: no two words of eight bytes are alike, nor are those of two seeds.
/// `offset`: of the first byte in the whole pattern, a multiple of 8.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::size_t offset);

/// Whether they hold it.
bool has_pattern(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t offset);

} // namespace rdma_nccl
