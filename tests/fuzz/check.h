// SPDX-License-Identifier: Apache-2.0
// How a fuzz test says that something does not hold: libFuzzer keeps the input of a process that aborts.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace fuzz {

/// `what` continues "not so: ".
inline void require(bool holds, std::string_view what, std::string_view of = "") {
    if (!holds) {
        std::fprintf(stderr, "not so: %.*s: '%.*s'\n", static_cast<int>(what.size()), what.data(),
                     static_cast<int>(of.size()), of.data());
        std::abort();
    }
}

/// Fit for a terminal and a log: one line of printable ASCII.
inline bool is_plain(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

inline void require_plain(std::string_view text) {
    require(is_plain(text), "only printable ASCII", text);
}

template<typename Texts>
void require_all_plain(const Texts& texts) {
    for (const auto& text : texts) {
        require(!text.empty(), "a text that says something");
        require_plain(text);
    }
}

} // namespace fuzz
