// SPDX-License-Identifier: Apache-2.0
// fmt::format() with its implementation compiled only once, in format.cpp: the plugin cannot link libfmt.so, as it may
// depend on libc and libm only (DT_NEEDED), and fmt's header-only mode would compile the implementation in every file.
#pragma once

#include <fmt/core.h>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// The type-erased part of format_text().
std::string format_erased(fmt::string_view text, fmt::format_args arguments);

/// Formats like fmt::format(). Format strings are checked at compile time.
template<typename... T>
std::string format_text(fmt::format_string<T...> text, T&&... arguments) {
    return format_erased(text, fmt::make_format_args(arguments...));
}

/// Returns a number with its noun: "1 port", "2 ports".
inline std::string count_text(std::size_t number, std::string_view noun) {
    return format_text("{} {}{}", number, noun, number == 1 ? "" : "s");
}

} // namespace rdma_nccl
