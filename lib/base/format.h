// SPDX-License-Identifier: Apache-2.0
// Values as text. format_text() is fmt::format() with its implementation compiled only once, in format.cpp: the plugin
// cannot link libfmt.so, as it may depend on libc and libm only (DT_NEEDED), and fmt's header-only mode would compile
// the implementation in every file.
#pragma once

#include <cstdint>
#include <fmt/core.h>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The type-erased part of format_text().
std::string format_erased(fmt::string_view text, fmt::format_args arguments);

/// Formats like fmt::format(). Format strings are checked at compile time.
template<typename... T>
std::string format_text(fmt::format_string<T...> text, T&&... arguments) {
    return format_erased(text, fmt::make_format_args(arguments...));
}

/// Returns a number with its noun: "1 port", "2 ports".
std::string format_count(std::size_t number, std::string_view noun);

/// Formats a byte count in powers of 1000, as link rates are given, with three or four digits: "0 B", "12.3 kB",
/// "412 MB", "1.04 TB".
std::string format_bytes(std::uint64_t bytes);

using TableRow = std::vector<std::string>;

/// Returns the rows as lines, with columns aligned to the left and two blanks between them. Lines do not end in blanks.
/// `indent` starts each line.
std::string aligned_table(const std::vector<TableRow>& rows, std::string_view indent = "");

} // namespace rdma_nccl
