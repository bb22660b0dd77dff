// SPDX-License-Identifier: Apache-2.0
// How the bodies of messages are written and read (exchange_message.h): lines of words, with limits on all that comes
// in. For the files that know a message alone.
#pragma once

#include "lib/fabric.h"
#include "lib/format.h"
#include "lib/ip.h"
#include "lib/result.h"
#include "lib/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl::wire {

inline constexpr std::size_t longest_name = 255;
inline constexpr std::size_t longest_text = 400;
inline constexpr std::size_t most_items = 64; ///< of one list, unless it has a limit of its own
inline constexpr std::string_view none = "-";

using Lines = std::string;

/// A word: what would end one becomes '?', and a longer one than the reader takes is cut.
inline std::string word(std::string_view text) {
    constexpr std::size_t dots = 3;
    std::string result = printable(text, text.size() > longest_name ? longest_name - dots : longest_name);
    std::replace(result.begin(), result.end(), ' ', '?');
    return result.empty() ? std::string(none) : result;
}

inline std::string text(std::string_view any) {
    return printable(any, longest_text);
}

template<typename T>
std::string word_or_none(const std::optional<T>& value) {
    return value ? format_text("{}", *value) : std::string(none);
}

template<typename Range>
void write_limited(Lines& lines, const Range& items, std::size_t most, const auto& write_item) {
    std::size_t count = 0;
    for (const auto& item : items) {
        if (count++ == most) {
            break;
        }
        write_item(lines, item);
    }
}

/// The words of one line, taken from the left; each fault is remembered.
class Words {
public:
    explicit Words(std::string_view line) : rest_(line) {}

    std::string_view word() {
        const auto end = std::min(rest_.find(' '), rest_.size());
        const auto result = rest_.substr(0, end);
        rest_.remove_prefix(std::min(end + 1, rest_.size()));
        good_ = good_ && !result.empty() && result.size() <= longest_name;
        return result;
    }

    /// "" for none.
    std::string name() {
        const auto text = word();
        return text == none ? std::string() : printable(text, longest_name);
    }

    /// All that is left.
    std::string text() { return printable(std::exchange(rest_, {}), longest_text); }

    template<std::integral T>
    T number() {
        const auto value = parse_number<T>(word());
        good_ = good_ && value;
        return value.value_or(T{});
    }

    template<std::integral T>
    std::optional<T> number_or_none() {
        return rest_.substr(0, rest_.find(' ')) == none ? (word(), std::nullopt) : std::optional(number<T>());
    }

    double real() {
        double value = 0;
        const auto text = word();
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        good_ = good_ && error == std::errc{} && stop == text.data() + text.size() && value >= 0 && value < 1e9;
        return value;
    }

    IpAddress address() {
        const auto value = IpAddress::parse(word());
        good_ = good_ && value;
        return value.value_or(IpAddress());
    }

    std::optional<IpAddress> address_or_none() {
        return rest_.substr(0, rest_.find(' ')) == none ? (word(), std::nullopt) : std::optional(address());
    }

    std::optional<InterfaceAddress> interface_address() {
        const auto both = word();
        if (both == none) {
            return std::nullopt;
        }
        const auto [address, length] = split_once(both, '/');
        const auto prefix = IpPrefix::parse(both);
        const auto value = IpAddress::parse(address);
        good_ = good_ && prefix && value && length;
        return good_ ? std::optional(InterfaceAddress{*value, prefix->length()}) : std::nullopt;
    }

    template<typename T, std::size_t N>
    T one_of(const std::array<std::pair<std::string_view, T>, N>& words) {
        const auto text = word();
        const auto* const found =
            std::find_if(words.begin(), words.end(), [text](const auto& entry) { return entry.first == text; });
        good_ = good_ && found != words.end();
        return found == words.end() ? words.front().second : found->second;
    }

    void refuse() { good_ = false; }
    [[nodiscard]] bool good() const { return good_; }

private:
    std::string_view rest_;
    bool good_ = true;
};

template<typename T>
void add_limited(std::vector<T>& list, std::size_t most, T item, Words& words) {
    if (list.size() >= most) {
        words.refuse();
        return;
    }
    list.push_back(std::move(item));
}

/// What one line does to the message.
template<typename T>
using LineReader = void (*)(T& message, Words& words);
template<typename T>
using LineReaders = std::span<const std::pair<std::string_view, LineReader<T>>>;

template<typename Message, typename T>
Result<Message> read_lines(std::string_view what, std::string_view lines, LineReaders<T> readers) {
    T message{};
    for (auto left = std::optional(lines);
         left;) { // not all lines at once: a vector of them can be larger than they are
        const auto [line, more] = split_once(*left, '\n');
        left = more;
        const auto [key, rest] = split_once(line, ' ');
        const auto found = std::find_if(readers.begin(), readers.end(),
                                        [key = key](const auto& reader) { return reader.first == key; });
        if (found == readers.end()) {
            continue;
        }
        Words words(rest.value_or(""));
        found->second(message, words);
        if (!words.good()) {
            return fail(format_text(R"(the line "{}" of a message "{}" is malformed)", printable(line), what));
        }
    }
    return Message(std::move(message));
}

} // namespace rdma_nccl::wire
