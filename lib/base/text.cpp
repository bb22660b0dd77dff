// SPDX-License-Identifier: Apache-2.0
#include "lib/base/text.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace rdma_nccl {

namespace {

constexpr std::string_view blanks = " \t\r\n";

/// The Levenshtein distance. Words are short, so the plain two-row algorithm is fast enough.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> previous(b.size() + 1);
    std::vector<std::size_t> current(b.size() + 1);
    std::iota(previous.begin(), previous.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        current[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t substituted = previous[j] + (a[i] == b[j] ? 0 : 1);
            current[j + 1] = std::min({previous[j + 1] + 1, current[j] + 1, substituted});
        }
        std::swap(previous, current);
    }
    return previous[b.size()];
}

std::string likewise(const std::vector<std::string>& names) {
    constexpr std::size_t most_names = 8;
    return names.empty() ? "" : format_text(" (likewise {})", joined_some(names, most_names));
}

} // namespace

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) {
        return text.substr(text.size()); // empty, but still a position in the text
    }
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(at + 1);
    }
}

std::vector<std::string_view> split_words(std::string_view text) {
    std::vector<std::string_view> words;
    for (auto start = text.find_first_not_of(blanks); start != std::string_view::npos;) {
        const auto end = std::min(text.find_first_of(blanks, start), text.size());
        words.push_back(text.substr(start, end - start));
        start = text.find_first_not_of(blanks, end);
    }
    return words;
}

KeyValue split_once(std::string_view text, char separator) {
    const auto at = text.find(separator);
    return at == std::string_view::npos ? KeyValue{text, {}} : KeyValue{text.substr(0, at), text.substr(at + 1)};
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
    const bool binary = text.ends_with("iB");
    text.remove_suffix(binary ? 2 : text.ends_with('B') || text.ends_with('b') ? 1 : 0);
    constexpr std::string_view units = "kKmMgGtT";
    const auto unit = text.empty() ? std::string_view::npos : units.find(text.back());
    const unsigned shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<unsigned>(unit) / 2 + 1);
    if (binary && shift == 0) {
        return std::nullopt;
    }
    text.remove_suffix(shift == 0 ? 0 : 1);
    const auto number = parse_number<std::uint64_t>(text);
    return number && *number <= (UINT64_MAX >> shift) ? std::optional(*number << shift) : std::nullopt;
}

std::optional<std::string_view> nearest_word(std::string_view word, const std::vector<std::string_view>& words) {
    constexpr std::size_t longest_word = 64; // longer input is not a misspelling and would only cost time
    if (word.empty() || word.size() > longest_word) {
        return std::nullopt;
    }
    std::optional<std::string_view> best;
    std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
    for (const auto candidate : words) {
        const bool prefix = word.size() >= 2 && candidate.substr(0, word.size()) == word;
        const std::size_t distance = prefix ? 1 : edit_distance(word, candidate);
        if (distance < best_distance && distance < candidate.size()) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

std::string joined_some(const std::vector<std::string>& texts, std::size_t most) {
    const auto shown = std::min(texts.size(), most);
    return joined(std::span(texts).first(shown)) +
           (shown < texts.size() ? format_text(" and {} more", texts.size() - shown) : "");
}

std::string printable(std::string_view text, std::size_t max_length) {
    const bool cut = text.size() > max_length;
    std::string result(text.substr(0, max_length));
    std::ranges::replace_if(
        result, [](char c) { return c < ' ' || c > '~'; }, '?'); // a byte above 0x7f may be a negative char
    return cut ? result + "..." : result;
}

std::string lower_case(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return result;
}

bool is_device_name(std::string_view name) {
    constexpr std::size_t longest = 63; // IB_DEVICE_NAME_MAX is 64 with the final NUL
    return !name.empty() && name.size() <= longest && name != "." && name != ".." &&
           std::ranges::all_of(name, is_name_character);
}

bool is_netdev_name(std::string_view name) {
    constexpr std::size_t longest = 15; // IFNAMSIZ is 16 with the final NUL
    return !name.empty() && name.size() <= longest && name != "." && name != ".." &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f && c != '/' && c != ':'; });
}

void MessageGroups::add(std::string_view key, std::string_view name, std::string sentence) {
    if (auto* const group = find_by(groups_, &Group::key, key)) {
        group->others.emplace_back(name);
    } else {
        groups_.push_back({std::string(key), std::move(sentence), {}});
    }
}

std::vector<std::string> MessageGroups::texts() const {
    return mapped(groups_, [](const Group& group) { return group.sentence + likewise(group.others); });
}

std::vector<std::string> Notes::take() {
    if (more_ > 0) {
        texts_.push_back(format_text("and {} more of this kind", more_));
    }
    return std::move(texts_);
}

} // namespace rdma_nccl
