// SPDX-License-Identifier: Apache-2.0
// The values that ranks send and expect: whole numbers, so small that all types and all orders of adding give the same.
// They repeat after a prime number of elements, so that a whole buffer is filled and compared block by block, while
// parts of it that change places are noticed.
#pragma once

#include "tools/bench_collective.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rdma_nccl {

inline constexpr std::size_t tile_elements = 65521; // the greatest prime below 2^16

struct TileSettings {
    std::string_view type = "float"; ///< nccl-tests' names
    std::string_view redop = "sum";  ///< "none": values are only moved
    unsigned ranks = 1;
    std::uint64_t seed = 0; ///< another one, other values: what is left of the repeat before is no right answer
};

/// Elements 0, 1, ... of what rank `rank` sends.
std::vector<std::byte> sent_tile(const TileSettings& settings, unsigned rank);

/// Elements 0, 1, ... of the reduction over all ranks.
std::vector<std::byte> reduced_tile(const TileSettings& settings);

/// How many of the values are not as the tile has them from element `first` on. An average may be off by rounding.
std::uint64_t count_wrong(const TileSettings& settings, std::span<const std::byte> tile,
                          std::span<const std::byte> values, std::uint64_t first);

} // namespace rdma_nccl
