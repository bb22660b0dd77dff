// SPDX-License-Identifier: Apache-2.0
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace rdma_nccl {

namespace {

constexpr std::size_t most_entries = 65536;
constexpr std::size_t longest_name = 255; // HOST_NAME_MAX plus one byte; see gethostname(2)

tl::unexpected<Error> malformed(std::string_view what, std::string_view text) {
    return fail(format_text("{} \"{}\" is malformed", what, printable(text)));
}

struct NumberRange {
    unsigned first = 0;
    unsigned last = 0;
    std::size_t width = 0; ///< the length of the first number's text, as leading zeros are kept
};

std::optional<NumberRange> parse_range(std::string_view text) {
    const auto [first_text, last_text] = split_once(text, '-');
    const auto first = parse_number<unsigned>(first_text);
    const auto last = last_text ? parse_number<unsigned>(*last_text) : first;
    if (!first || !last || *last < *first || *last - *first >= most_entries || first_text.size() > 18) {
        return std::nullopt;
    }
    return NumberRange{*first, *last, first_text.size()};
}

/// Appends every number of "01-03,7" to every prefix. Returns false if the ranges are malformed or give too many names.
bool multiply(std::vector<std::string>& names, std::string_view ranges) {
    std::vector<std::string> result;
    for (const auto& prefix : names) {
        for (const auto part : split(ranges, ',')) {
            const auto range = parse_range(part);
            if (!range || result.size() + (range->last - range->first) >= most_entries) {
                return false;
            }
            for (unsigned i = 0; i <= range->last - range->first; ++i) {
                result.push_back(format_text("{}{:0{}}", prefix, range->first + i, range->width));
            }
        }
    }
    names = std::move(result);
    return true;
}

/// Removes one expression such as "r[1-2]n[1-4]-ib" from the front of the text, up to a comma or the end, and returns
/// its names; an empty list when malformed.
std::vector<std::string> take_expression(std::string_view& text) {
    std::vector<std::string> names = {""};
    for (bool first = true;; first = false) {
        const auto stop = std::min(text.find_first_of(",[] \t\n"), text.size());
        for (auto& name : names) {
            name += text.substr(0, stop);
            if (name.size() > longest_name) {
                return {};
            }
        }
        text.remove_prefix(stop);
        if (text.empty() || text.front() == ',') {
            return first && stop == 0 ? std::vector<std::string>() : names;
        }
        const auto close = text.find(']');
        if (text.front() != '[' || close == std::string_view::npos || !multiply(names, text.substr(1, close - 1))) {
            return {};
        }
        text.remove_prefix(close + 1);
    }
}

/// A name split at its last number; `digits` is empty if it has none.
struct Numbered {
    std::string before;
    std::string digits;
    std::string behind;
    [[nodiscard]] bool padded() const { return digits.size() > 1 && digits.starts_with('0'); }
};

Numbered around_last_number(const std::string& name) {
    constexpr std::string_view digits = "0123456789";
    const auto end = name.find_last_of(digits) + 1; // npos + 1 is 0
    const auto start = end == 0 ? 0 : name.find_last_not_of(digits, end - 1) + 1;
    return {name.substr(0, start), name.substr(start, end - start), name.substr(end)};
}

/// What the names in a bracket share: the text around the number, and the number's width if it is padded.
using Around = std::tuple<std::string, std::string, std::size_t>;

} // namespace

std::string fold_numbers(const std::vector<unsigned>& numbers, std::size_t width) {
    std::string text;
    for (std::size_t first = 0; first < numbers.size();) {
        std::size_t last = first;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
            ++last;
        }
        text += format_text("{}{:0{}}", text.empty() ? "" : ",", numbers[first], width);
        if (last > first) {
            text += format_text("-{:0{}}", numbers[last], width);
        }
        first = last + 1;
    }
    return text;
}

std::string fold_hostlist(std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::set<Around> padded; // n08 means that n10 is padded to two digits as well
    for (const auto& name : names) {
        if (const auto parts = around_last_number(name); parts.padded()) {
            padded.emplace(parts.before, parts.behind, parts.digits.size());
        }
    }
    std::map<Around, std::vector<unsigned>> folded;
    std::vector<std::string> plain;
    for (const auto& name : names) {
        const auto parts = around_last_number(name);
        Around around{parts.before, parts.behind, parts.digits.size()};
        if (const auto value = parse_number<unsigned>(parts.digits)) {
            std::get<2>(around) = padded.contains(around) ? parts.digits.size() : 0;
            folded[around].push_back(*value);
        } else {
            plain.push_back(name);
        }
    }
    std::vector<std::string> parts;
    for (auto& [around, numbers] : folded) {
        const auto& [before, behind, width] = around;
        std::sort(numbers.begin(), numbers.end());
        const bool one = numbers.size() == 1;
        parts.push_back(
            format_text("{}{}{}{}{}", before, one ? "" : "[", fold_numbers(numbers, width), one ? "" : "]", behind));
    }
    append(parts, std::move(plain));
    return joined(parts, ",");
}

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
    std::vector<std::string> hosts;
    for (auto left = trim(text);; left.remove_prefix(1)) { // the comma
        auto names = take_expression(left);
        if (names.empty() || hosts.size() + names.size() > most_entries) {
            return malformed("host list", text);
        }
        append(hosts, std::move(names));
        if (left.empty()) {
            return hosts;
        }
    }
}

Result<std::vector<unsigned>> expand_task_counts(std::string_view text) {
    std::vector<unsigned> counts;
    for (const auto part : split(trim(text), ',')) {
        const auto [count_digits, repeat_text] = split_once(part, '(');
        const auto count = parse_number<unsigned>(count_digits);
        std::optional<unsigned> repeat = 1;
        if (repeat_text) {
            const bool framed = repeat_text->starts_with('x') && repeat_text->ends_with(')');
            repeat = framed ? parse_number<unsigned>(repeat_text->substr(1, repeat_text->size() - 2)) : std::nullopt;
        }
        if (!count || !repeat || *repeat == 0 || counts.size() + *repeat > most_entries) {
            return malformed("task count list", text);
        }
        counts.insert(counts.end(), *repeat, *count);
    }
    return counts;
}

Result<std::vector<std::uint16_t>> expand_ports(std::string_view text) {
    std::vector<std::uint16_t> ports;
    for (const auto part : split(trim(text), ',')) {
        const auto range = parse_range(part);
        if (!range || range->first == 0 || range->last > 65535 || ports.size() > 65535) {
            return malformed("port list", text);
        }
        for (unsigned port = range->first; port <= range->last; ++port) {
            ports.push_back(static_cast<std::uint16_t>(port));
        }
    }
    return ports;
}

} // namespace rdma_nccl
