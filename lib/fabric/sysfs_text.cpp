// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/sysfs_text.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace rdma_nccl {

namespace {

constexpr std::size_t gid_groups = 8;
constexpr std::size_t gid_length = gid_groups * 5 - 1;

std::optional<std::uint8_t> hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return static_cast<std::uint8_t>(c - '0');
    }
    if (c >= 'a' && c <= 'f') {
        return static_cast<std::uint8_t>(c - 'a' + 10);
    }
    if (c >= 'A' && c <= 'F') {
        return static_cast<std::uint8_t>(c - 'A' + 10);
    }
    return std::nullopt;
}

// Not isdigit() and friends: they depend on the locale and reject negative char values.
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Returns the digits at the front, without leading zeros.
std::string_view leading_number(std::string_view text) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
    auto digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    return digits;
}

} // namespace

std::optional<IpAddress> parse_gid(std::string_view text) {
    if (text.size() != gid_length) {
        return std::nullopt;
    }
    IpAddress::Bytes bytes{};
    for (std::size_t group = 0; group < gid_groups; ++group) {
        const auto digits = text.substr(group * 5, 5);
        if (digits.size() == 5 && digits[4] != ':') {
            return std::nullopt;
        }
        for (std::size_t half = 0; half < 2; ++half) {
            const auto high = hex_digit(digits[half * 2]);
            const auto low = hex_digit(digits[half * 2 + 1]);
            if (!high || !low) {
                return std::nullopt;
            }
            bytes.at(group * 2 + half) = static_cast<std::uint8_t>(*high << 4U | *low);
        }
    }
    return IpAddress(bytes);
}

std::string gid_text(const IpAddress& gid) {
    std::string text;
    text.reserve(gid_length);
    constexpr std::string_view digits = "0123456789abcdef";
    for (std::size_t i = 0; i < gid.bytes().size(); ++i) {
        if (i > 0 && i % 2 == 0) {
            text += ':';
        }
        text += digits[gid.bytes().at(i) >> 4U];
        text += digits[gid.bytes().at(i) & 0xfU];
    }
    return text;
}

std::optional<double> parse_rate_gbps(std::string_view text) {
    constexpr double highest = 1e6;
    double value = 0;
    // from_chars also accepts "inf", "nan" and a sign, but a rate starts with a digit.
    if (text.empty() || !is_digit(text.front())) {
        return std::nullopt;
    }
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    const std::string_view rest(stop, static_cast<std::size_t>(end - stop));
    if (error != std::errc{} || !rest.starts_with(" Gb/sec") || value <= 0 || value > highest) {
        return std::nullopt;
    }
    return value;
}

bool is_default_rate(std::string_view text) {
    return text == "10 Gb/sec (4X)" || text == "10 Gb/sec (4X SDR)" || text == "2.5 Gb/sec (1X SDR)";
}

std::string parse_enum_name(std::string_view text) {
    const auto [number, name] = split_once(text, ':');
    return printable(trim(name.value_or(number)), 40);
}

LinkLayer parse_link_layer(std::string_view text) {
    if (text == "InfiniBand") {
        return LinkLayer::InfiniBand;
    }
    return text == "Ethernet" ? LinkLayer::Ethernet : LinkLayer::Unknown;
}

std::string link_layer_text(LinkLayer layer) {
    switch (layer) {
    case LinkLayer::InfiniBand:
        return "InfiniBand";
    case LinkLayer::Ethernet:
        return "Ethernet";
    case LinkLayer::Unknown:
        break;
    }
    return "Unknown";
}

std::optional<GidType> parse_gid_type(std::string_view text) {
    if (text == "RoCE v2") {
        return GidType::RoceV2;
    }
    if (text == "IB/RoCE v1" || text == "RoCE v1") {
        return GidType::RoceV1;
    }
    return std::nullopt;
}

std::optional<unsigned> parse_index(std::string_view text) {
    if (text.size() > 1 && text.front() == '0') {
        return std::nullopt;
    }
    return parse_number<unsigned>(text);
}

bool natural_name_less(std::string_view a, std::string_view b) {
    const std::string_view whole_a = a;
    const std::string_view whole_b = b;
    while (!a.empty() && !b.empty()) {
        if (!is_digit(a.front()) || !is_digit(b.front())) {
            if (a.front() != b.front()) {
                return a.front() < b.front();
            }
            a.remove_prefix(1);
            b.remove_prefix(1);
            continue;
        }
        const auto number_a = leading_number(a);
        const auto number_b = leading_number(b);
        if (number_a.size() != number_b.size()) {
            return number_a.size() < number_b.size();
        }
        if (number_a != number_b) {
            return number_a < number_b;
        }
        a.remove_prefix(static_cast<std::size_t>(std::find_if_not(a.begin(), a.end(), is_digit) - a.begin()));
        b.remove_prefix(static_cast<std::size_t>(std::find_if_not(b.begin(), b.end(), is_digit) - b.begin()));
    }
    if (a.empty() && b.empty()) {
        return whole_a < whole_b; // "a01" and "a1": any fixed order will do
    }
    return a.empty();
}

} // namespace rdma_nccl
