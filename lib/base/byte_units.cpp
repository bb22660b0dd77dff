// SPDX-License-Identifier: Apache-2.0
#include "lib/base/byte_units.h"

#include "lib/base/format.h"

#include <array>

namespace rdma_nccl {

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::array units = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        return format_text("{} B", bytes);
    }
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 999.5) { // would round to 1000
        value /= 1000;
        ++unit;
    }
    return value < 9.995   ? format_text("{:.2f} {}", value, units.at(unit))
           : value < 99.95 ? format_text("{:.1f} {}", value, units.at(unit))
                           : format_text("{:.0f} {}", value, units.at(unit));
}

} // namespace rdma_nccl
