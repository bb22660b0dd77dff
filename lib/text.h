// SPDX-License-Identifier: Apache-2.0
// Small text helpers. All of them are total: any bytes may come in.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Without leading and trailing blanks, tabs, CR and newlines.
std::string_view trim(std::string_view text);

/// The parts between separators; "" gives one empty part, "a," gives "a" and "".
std::vector<std::string_view> split(std::string_view text, char separator);

/// The words between runs of blanks and tabs; no empty ones.
std::vector<std::string_view> split_words(std::string_view text);

/// Both parts around the first separator; without one the second part is absent.
struct KeyValue {
    std::string_view key;
    std::optional<std::string_view> value;
};
KeyValue split_once(std::string_view text, char separator);

/// The whole text as a number in the given base: no sign for unsigned types, no blanks, nothing behind it.
template<std::integral T>
std::optional<T> parse_number(std::string_view text, int base = 10) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, base);
    if (text.empty() || error != std::errc{} || stop != end) {
        return std::nullopt;
    }
    return value;
}

/// Bytes: "8", "512K", "32m", "2GB", "1TiB", powers of 1024; nullopt for others, and for more than 64 bits hold.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// The entry of `words` that a user most likely meant by `word` (edit distance, prefix), or nullopt when none is near.
std::optional<std::string_view> nearest_word(std::string_view word, const std::vector<std::string_view>& words);

/// All of them, with `between` between them.
template<typename Texts>
std::string joined(const Texts& texts, std::string_view between = ", ") {
    std::string all;
    for (const auto& text : texts) {
        all += all.empty() ? "" : between;
        all += text;
    }
    return all;
}

/// A cell of a table: "-" for an empty text.
inline std::string or_dash(std::string text) {
    return text.empty() ? "-" : std::move(text);
}

/// nullopt for an empty text.
std::optional<std::string> text_if_any(std::string_view text);

/// The last component of a path: "/usr/bin/torchrun" gives "torchrun".
std::string_view base_name(std::string_view path);

/// Text from a file or a peer made safe for a terminal or log: bytes other than printable ASCII become '?', longer text
/// is cut with "...".
std::string printable(std::string_view text, std::size_t max_length = 80);

/// Sentences on many ports, of which many say the same: eight rails without address are one line, not eight.
class AlikeSentences {
public:
    /// `sentence` is on `name` and begins with it; it stands for all of the same `key`.
    void add(std::string_view key, std::string_view name, std::string sentence);

    /// One for each key, in the order of their first: "SENTENCE (likewise NAME, NAME and 5 more)".
    [[nodiscard]] std::vector<std::string> texts() const;

private:
    struct Group {
        std::string key;
        std::string sentence;
        std::vector<std::string> others;
    };
    std::vector<Group> groups_;
};

} // namespace rdma_nccl
