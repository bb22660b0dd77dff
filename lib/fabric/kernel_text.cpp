// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/kernel_text.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>

namespace rdma_nccl {

namespace {

// Not isdigit() and friends: they depend on the locale and reject negative char values.
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Takes the front off: one character, or all digits (without leading zeros) if it is to be a number.
std::string_view take_front(std::string_view& text, bool number) {
    const std::size_t length = number ? std::min(text.find_first_not_of("0123456789"), text.size()) : 1;
    auto front = text.substr(0, length);
    text.remove_prefix(length);
    if (number) {
        front.remove_prefix(std::min(front.find_first_not_of('0'), front.size()));
    }
    return front;
}

/// Parses the 32 hex digits of an address, "fe80...0001", with colons between groups of four ("fe80:...:0001") or none.
std::optional<IpAddress> parse_hex_address(std::string_view text, bool colons) {
    IpAddress::Bytes bytes{};
    if (text.size() != bytes.size() * 2 + (colons ? 7 : 0)) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::size_t start = i * 2 + (colons ? i / 2 : 0);
        const auto byte = parse_number<std::uint8_t>(text.substr(start, 2), 16);
        if (!byte || (colons && i > 0 && i % 2 == 0 && text[start - 1] != ':')) {
            return std::nullopt;
        }
        bytes.at(i) = *byte;
    }
    return IpAddress(bytes);
}

// <linux/route.h>
constexpr std::uint32_t route_up = 0x1;
constexpr std::uint32_t route_gateway = 0x2;
constexpr std::uint32_t route_reject = 0x200;

std::optional<std::uint32_t> parse_hex(std::string_view text) {
    return text.size() <= 8 ? parse_number<std::uint32_t>(text, 16) : std::nullopt;
}

/// Returns 24 for 255.255.255.0, whose bytes are in network order, and nullopt for a mask with a hole.
std::optional<unsigned> mask_length(std::uint32_t mask) {
    const auto ones = static_cast<unsigned>(std::countl_one(ntohl(mask)));
    return ones == static_cast<unsigned>(std::popcount(mask)) ? std::optional(ones) : std::nullopt;
}

/// Nullopt also for a route that is not up, or that rejects what it matches.
std::optional<Route> make_route(std::string_view netdev, const std::optional<IpAddress>& destination,
                                std::optional<unsigned> length, std::optional<std::uint32_t> flags,
                                std::optional<std::uint32_t> metric) {
    if (!is_netdev_name(netdev) || !destination || !length || !flags || !metric ||
        (*flags & (route_up | route_reject)) != route_up) {
        return std::nullopt;
    }
    const auto prefix = IpPrefix::of(*destination, *length);
    return prefix ? std::optional(Route{std::string(netdev), *prefix, (*flags & route_gateway) == 0, *metric})
                  : std::nullopt;
}

std::optional<Route> parse_ipv4_route(std::string_view line) {
    // Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
    const auto columns = split_words(line);
    if (columns.size() < 8) {
        return std::nullopt;
    }
    // "010200C0": the four bytes of an address in network order, printed as a number of the machine.
    const auto destination = parse_hex(columns[1]);
    const auto mask = parse_hex(columns[7]);
    if (!destination || !mask) {
        return std::nullopt;
    }
    return make_route(columns[0], IpAddress::from_ipv4(std::bit_cast<std::array<std::uint8_t, 4>>(*destination)),
                      mask_length(*mask), parse_hex(columns[3]), parse_number<std::uint32_t>(columns[6]));
}

std::optional<Route> parse_ipv6_route(std::string_view line) {
    // destination length source length next_hop metric refcnt use flags iface
    const auto columns = split_words(line);
    if (columns.size() < 10) {
        return std::nullopt;
    }
    return make_route(columns[9], parse_hex_address(columns[0], false), parse_number<std::uint8_t>(columns[1], 16),
                      parse_hex(columns[8]), parse_hex(columns[5]));
}

std::optional<NetdevAddress> parse_if_inet6_line(std::string_view line) {
    // address ifindex length scope flags iface
    constexpr unsigned failed_or_tentative = 0x08 | 0x40; // IFA_F_DADFAILED, IFA_F_TENTATIVE of <linux/if_addr.h>
    const auto columns = split_words(line);
    if (columns.size() < 6 || !is_netdev_name(columns[5])) {
        return std::nullopt;
    }
    const auto address = parse_hex_address(columns[0], false);
    const auto length = parse_number<std::uint8_t>(columns[2], 16);
    const auto flags = parse_hex(columns[4]);
    if (!address || address->is_ipv4() || !length || *length > 128 || !flags || (*flags & failed_or_tentative) != 0) {
        return std::nullopt; // an IPv4-mapped address on an interface is useless
    }
    return NetdevAddress{std::string(columns[5]), *address, *length};
}

template<typename Value>
std::vector<Value> parse_lines(std::string_view text, std::optional<Value> (*parse)(std::string_view)) {
    std::vector<Value> values;
    for (const auto line : split(text, '\n')) {
        if (auto value = parse(line)) {
            values.push_back(std::move(*value));
        }
    }
    return values;
}

std::optional<NetdevAddress> parse_saved_address_line(std::string_view line) {
    const auto [netdev, rest] = split_once(line, ' ');
    const auto [address_text, length] = split_once(rest.value_or(""), '/');
    const auto address = IpAddress::parse(address_text);
    const auto network = IpPrefix::parse(rest.value_or(""));
    return is_netdev_name(netdev) && address && network
               ? std::optional(NetdevAddress{std::string(netdev), *address, network->length()})
               : std::nullopt;
}

} // namespace

std::optional<IpAddress> parse_gid(std::string_view text) {
    return parse_hex_address(text, true);
}

std::string gid_text(const IpAddress& gid) {
    std::string text;
    for (std::size_t i = 0; i < gid.bytes().size(); ++i) {
        text += format_text("{}{:02x}", i > 0 && i % 2 == 0 ? ":" : "", gid.bytes().at(i));
    }
    return text;
}

std::optional<Rate> parse_rate(std::string_view text) {
    constexpr double max_gbps = 1e6;
    Rate rate;
    // from_chars also accepts "inf", "nan" and a sign, but a rate starts with a digit.
    if (text.empty() || !is_digit(text.front())) {
        return std::nullopt;
    }
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, rate.gbps, std::chars_format::fixed);
    const std::string_view rest(stop, static_cast<std::size_t>(end - stop));
    if (error != std::errc{} || !rest.starts_with(" Gb/sec") || rate.gbps <= 0 || rate.gbps > max_gbps) {
        return std::nullopt;
    }
    rate.is_default = text == "10 Gb/sec (4X)" || text == "10 Gb/sec (4X SDR)" || text == "2.5 Gb/sec (1X SDR)";
    return rate;
}

std::string parse_enum_name(std::string_view text) {
    const auto [number, name] = split_once(text, ':');
    return printable(trim(name.value_or(number)), 40);
}

LinkLayer parse_link_layer(std::string_view text) {
    return text == "InfiniBand" ? LinkLayer::InfiniBand : text == "Ethernet" ? LinkLayer::Ethernet : LinkLayer::Unknown;
}

std::string link_layer_text(LinkLayer layer) {
    return layer == LinkLayer::InfiniBand ? "InfiniBand" : layer == LinkLayer::Ethernet ? "Ethernet" : "Unknown";
}

std::optional<GidType> parse_gid_type(std::string_view text) {
    if (text == "RoCE v2") {
        return GidType::RoceV2;
    }
    return text == "IB/RoCE v1" || text == "RoCE v1" ? std::optional(GidType::RoceV1) : std::nullopt;
}

std::optional<unsigned> parse_index(std::string_view text) {
    return text.size() > 1 && text.front() == '0' ? std::nullopt : parse_number<unsigned>(text);
}

bool natural_name_less(std::string_view a, std::string_view b) {
    const std::string_view whole_a = a;
    const std::string_view whole_b = b;
    while (!a.empty() && !b.empty()) {
        const bool numbers = is_digit(a.front()) && is_digit(b.front());
        const auto front_a = take_front(a, numbers);
        const auto front_b = take_front(b, numbers);
        if (front_a.size() != front_b.size()) {
            return front_a.size() < front_b.size();
        }
        if (front_a != front_b) {
            return front_a < front_b;
        }
    }
    return a.empty() && b.empty() ? whole_a < whole_b : a.empty(); // "a01" and "a1": any fixed order will do
}

std::vector<Route> parse_ipv4_routes(std::string_view text) {
    return parse_lines(text, parse_ipv4_route);
}

std::vector<Route> parse_ipv6_routes(std::string_view text) {
    return parse_lines(text, parse_ipv6_route);
}

std::vector<IpAddress> parse_fib_trie(std::string_view text) {
    // The entries of a leaf "|-- 192.0.2.2" follow it; "/32 host LOCAL" makes it an address of this machine.
    std::vector<IpAddress> addresses;
    std::set<IpAddress> seen; // the main and local tables may be merged; the file then lists them twice
    std::optional<IpAddress> leaf;
    for (const auto line : split(text, '\n')) {
        const auto columns = split_words(line);
        if (columns.size() == 2 && columns[0] == "|--") {
            leaf = IpAddress::parse(columns[1]);
        } else if (leaf && columns.size() >= 3 && columns[0] == "/32" && columns[2] == "LOCAL" &&
                   seen.insert(*leaf).second) {
            addresses.push_back(*leaf);
        }
    }
    return addresses;
}

std::vector<NetdevAddress> parse_saved_addresses(std::string_view text) {
    return parse_lines(text, parse_saved_address_line);
}

std::vector<NetdevAddress> parse_if_inet6(std::string_view text) {
    return parse_lines(text, parse_if_inet6_line);
}

} // namespace rdma_nccl
