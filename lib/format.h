// SPDX-License-Identifier: Apache-2.0
// fmt's format() with its machinery compiled once, in format.cpp: the plugin cannot link libfmt.so (doc/design.md,
// Libraries), and fmt's header-only mode would compile that machinery again in every file.
#pragma once

#include <fmt/core.h>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// What format_text() calls after the types are erased.
std::string format_erased(fmt::string_view text, fmt::format_args arguments);

/// fmt::format: format strings are checked at compile time.
template<typename... T>
std::string format_text(fmt::format_string<T...> text, T&&... arguments) {
    return format_erased(text, fmt::make_format_args(arguments...));
}

/// "1 port", "2 ports".
inline std::string count_text(std::size_t number, std::string_view noun) {
    return format_text("{} {}{}", number, noun, number == 1 ? "" : "s");
}

} // namespace rdma_nccl
