// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY
// Keeps fmt from using the locale, which would link all of C++'s locale code into the plugin. "{:L}" is not used. The
// second is for fmt 11.1 and newer.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#define FMT_USE_LOCALE 0
#include <fmt/format.h>

#include "lib/base/format.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

std::string format_erased(fmt::string_view text, fmt::format_args arguments) {
    return fmt::vformat(text, arguments);
}

std::string format_count(std::size_t number, std::string_view noun) {
    return format_text("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string format_bytes(std::uint64_t bytes) {
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
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return format_text("{:.{}f} {}", value, decimals, units.at(unit));
}

std::string aligned_table(const std::vector<TableRow>& rows, std::string_view indent) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line(indent);
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += row[i];
            line.append(i + 1 < row.size() ? widths[i] - row[i].size() + 2 : 0, ' ');
        }
        line.resize(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

} // namespace rdma_nccl
