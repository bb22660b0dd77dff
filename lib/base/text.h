// SPDX-License-Identifier: Apache-2.0
// Small text helpers. All of them accept any bytes.
#pragma once

#include "lib/base/result.h"

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// Returns the text without leading and trailing blanks, tabs, CR and newlines.
std::string_view trim(std::string_view text);

/// Returns the parts between separators; "" gives one empty part, "a," gives "a" and "".
std::vector<std::string_view> split(std::string_view text, char separator);

/// Returns the words between runs of blanks, tabs, CR and newlines; none is empty.
std::vector<std::string_view> split_words(std::string_view text);

/// The parts before and after the first separator. Without a separator, `value` is absent.
struct KeyValue {
    std::string_view key;
    std::optional<std::string_view> value;
};
KeyValue split_once(std::string_view text, char separator);

/// Parses the whole text as a number in the given base: no sign for unsigned types, no blanks, nothing after it.
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

/// Parses a number of bytes: "8", "512K", "32m", "2GB", "1TiB", in powers of 1024. Returns nullopt for other text and
/// for values beyond 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);

/// Returns the entry of `words` that a user most likely meant (edit distance, prefix), or nullopt if none is close.
std::optional<std::string_view> nearest_word(std::string_view word, const std::vector<std::string_view>& words);

/// Returns all texts, separated by `between`.
template<typename Texts>
std::string joined(const Texts& texts, std::string_view between = ", ") {
    std::string all;
    for (const auto& text : texts) {
        all += all.empty() ? "" : between;
        all += text;
    }
    return all;
}

/// Returns at most `most` of the texts, and how many more there are: "a, b and 3 more".
std::string joined_some(const std::vector<std::string>& texts, std::size_t most);

/// Returns "-" for an empty table cell.
inline std::string or_dash(std::string text) {
    return text.empty() ? "-" : std::move(text);
}

/// Returns nullopt for an empty text.
inline std::optional<std::string> text_if_any(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(std::string(text));
}

/// Returns the last component of a path: "/usr/bin/torchrun" gives "torchrun".
inline std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1); // npos + 1 is 0
}

/// Makes text from a file or a peer safe for a terminal or log: replaces bytes other than printable ASCII by '?', and
/// cuts longer text with "...".
std::string printable(std::string_view text, std::size_t max_length = 80);

/// Returns the text with ASCII letters in lower case, whatever the locale.
std::string lower_case(std::string_view text);

/// True for a letter or digit of ASCII, '_', '-' or '.', whatever the locale.
inline bool is_name_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '.';
}

/// True for a name that can be used in NCCL_IB_HCA and in a path: 1 to 63 letters, digits, '_', '-' or '.'.
bool is_device_name(std::string_view name);
/// True for an interface name that the kernel accepts (dev_valid_name: 1 to 15 characters, no '/', ':' or blank), in
/// printable ASCII only.
bool is_netdev_name(std::string_view name);

/// Merges sentences about many ports that say the same: eight rails without an address give one line, not eight.
class MessageGroups {
public:
    /// `sentence` is about `name` and begins with it. The first sentence of each `key` stands for all others.
    void add(std::string_view key, std::string_view name, std::string sentence);

    /// Returns one sentence per key, in the order of first use: "SENTENCE (likewise NAME, NAME and 5 more)".
    [[nodiscard]] std::vector<std::string> texts() const;

private:
    struct Group {
        std::string key;
        std::string sentence;
        std::vector<std::string> others;
    };
    std::vector<Group> groups_;
};

/// Notes on one item. A tree with a hundred thousand bad files gives only a few notes and a count.
class Notes {
public:
    void add(std::string text) {
        if (texts_.size() < most_) {
            texts_.push_back(std::move(text));
        } else {
            ++more_;
        }
    }
    /// Adds the message of an error, unless it says that the thing is not there.
    void add_unless_absent(const Error& error) {
        if (!error.is_absent()) {
            add(error.message);
        }
    }
    [[nodiscard]] std::vector<std::string> take();

private:
    static constexpr std::size_t most_ = 8;
    std::vector<std::string> texts_;
    std::size_t more_ = 0;
};

// Slurm's compressed lists, parsed without libslurm: the tools also run where it is not installed.

/// Expands "n[01-03,7]-ib,login" to its names in order. Several brackets in a name multiply (Slurm's multi-dimensional
/// names). Fails on malformed text and on more than 65,536 names (slurm.conf's own limit).
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

/// Does the reverse, for messages: names that differ only in their last number share a bracket, "n[01-03,07]-ib,login".
/// Sorts by the text around the number and drops duplicates.
std::string fold_hostlist(std::vector<std::string> names);

/// Writes sorted numbers, of at least `width` digits, as ranges: "01-03,07".
std::string fold_numbers(const std::vector<unsigned>& numbers, std::size_t width = 0);

/// Expands SLURM_*_TASKS_PER_NODE: "2(x3),1" gives 2,2,2,1. Fails like expand_hostlist().
Result<std::vector<unsigned>> expand_task_counts(std::string_view text);

/// Expands SLURM_STEP_RESV_PORTS, "12000-12003,12007", to its ports in order. Fails unless all ports are in 1..65535.
Result<std::vector<std::uint16_t>> expand_ports(std::string_view text);

} // namespace rdma_nccl
