// SPDX-License-Identifier: Apache-2.0
// The values that ranks send and expect: integers, small enough to give the same result in all types and in any order
// of addition. They repeat after a prime number of elements, so that swapped parts are noticed.
#pragma once

#include "tools/bench/rank/order.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rdma_nccl::bench {

inline constexpr std::size_t tile_elements = 65521; // the largest prime below 2^16

struct TileSettings {
    std::string_view type = "float"; ///< nccl-tests' names
    std::string_view redop = "sum";  ///< "none": values are only moved
    unsigned ranks = 1;
    std::uint64_t seed = 0; ///< another seed gives other values, so that leftovers of the repeat before are wrong
};

/// Returns the tile of the values that `rank` sends, starting with element 0.
std::vector<std::byte> sent_tile(const TileSettings& settings, unsigned rank);

/// Returns the tile of the reduction over all ranks, starting with element 0.
std::vector<std::byte> reduced_tile(const TileSettings& settings);

/// Returns how many values, from element `first` on, differ from the tile. An average may be off by rounding.
std::uint64_t count_wrong(const TileSettings& settings, std::span<const std::byte> tile,
                          std::span<const std::byte> values, std::uint64_t first);

} // namespace rdma_nccl::bench
