// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/proc_net.h"

#include "lib/base/names.h"
#include "lib/base/text.h"
#include "lib/fabric/sysfs_text.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

namespace rdma_nccl {

namespace {

// <linux/route.h>
constexpr std::uint32_t route_up = 0x1;
constexpr std::uint32_t route_gateway = 0x2;
constexpr std::uint32_t route_reject = 0x200;

std::optional<std::uint32_t> parse_hex(std::string_view text) {
    return text.size() <= 8 ? parse_number<std::uint32_t>(text, 16) : std::nullopt;
}

/// Parses "010200C0": the four bytes of an address in network order, printed as a number of the machine.
std::optional<std::array<std::uint8_t, 4>> parse_ipv4_word(std::string_view text) {
    const auto word = parse_hex(text);
    if (!word) {
        return std::nullopt;
    }
    return std::bit_cast<std::array<std::uint8_t, 4>>(*word);
}

/// Returns 24 for 255.255.255.0, and nullopt for a mask with a hole.
std::optional<unsigned> mask_length(const std::array<std::uint8_t, 4>& mask) {
    std::uint32_t value = 0;
    for (const auto byte : mask) {
        value = value << 8U | byte;
    }
    const auto ones = static_cast<unsigned>(std::countl_one(value));
    return ones == static_cast<unsigned>(std::popcount(value)) ? std::optional(ones) : std::nullopt;
}

/// "fe8000000000000000fc00fffe000001"
std::optional<IpAddress> parse_ipv6_hex(std::string_view text) {
    IpAddress::Bytes bytes{};
    if (text.size() != bytes.size() * 2) {
        return std::nullopt;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const auto byte = parse_number<std::uint8_t>(text.substr(i * 2, 2), 16);
        if (!byte) {
            return std::nullopt;
        }
        bytes.at(i) = *byte;
    }
    return IpAddress(bytes);
}

std::optional<Route> parse_ipv4_route(std::string_view line) {
    // Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
    const auto words = split_words(line);
    if (words.size() < 8 || !is_netdev_name(words[0])) {
        return std::nullopt;
    }
    const auto destination = parse_ipv4_word(words[1]);
    const auto flags = parse_hex(words[3]);
    const auto metric = parse_number<std::uint32_t>(words[6]);
    const auto mask = parse_ipv4_word(words[7]);
    const auto length = mask ? mask_length(*mask) : std::nullopt;
    if (!destination || !flags || !metric || !length || (*flags & (route_up | route_reject)) != route_up) {
        return std::nullopt;
    }
    const auto prefix = IpPrefix::of(IpAddress::from_ipv4(*destination), *length);
    return prefix ? std::optional(Route{std::string(words[0]), *prefix, (*flags & route_gateway) == 0, *metric})
                  : std::nullopt;
}

std::optional<Route> parse_ipv6_route(std::string_view line) {
    // destination length source length next_hop metric refcnt use flags iface
    const auto words = split_words(line);
    if (words.size() < 10 || !is_netdev_name(words[9])) {
        return std::nullopt;
    }
    const auto destination = parse_ipv6_hex(words[0]);
    const auto length = parse_number<std::uint8_t>(words[1], 16);
    const auto metric = parse_hex(words[5]);
    const auto flags = parse_hex(words[8]);
    if (!destination || !length || !metric || !flags || (*flags & (route_up | route_reject)) != route_up) {
        return std::nullopt;
    }
    const auto prefix = IpPrefix::of(*destination, *length);
    return prefix ? std::optional(Route{std::string(words[9]), *prefix, (*flags & route_gateway) == 0, *metric})
                  : std::nullopt;
}

std::optional<NetdevAddress> parse_if_inet6_line(std::string_view line) {
    // address ifindex length scope flags iface
    constexpr unsigned failed_or_tentative = 0x08 | 0x40; // IFA_F_DADFAILED, IFA_F_TENTATIVE of <linux/if_addr.h>
    const auto words = split_words(line);
    if (words.size() < 6 || !is_netdev_name(words[5])) {
        return std::nullopt;
    }
    const auto address = parse_ipv6_hex(words[0]);
    const auto length = parse_number<std::uint8_t>(words[2], 16);
    const auto flags = parse_hex(words[4]);
    if (!address || address->is_ipv4() || !length || *length > 128 || !flags || (*flags & failed_or_tentative) != 0) {
        return std::nullopt; // an IPv4-mapped address on an interface is useless
    }
    return NetdevAddress{std::string(words[5]), *address, *length};
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
    if (!is_netdev_name(netdev) || !address || !network) {
        return std::nullopt;
    }
    return NetdevAddress{std::string(netdev), *address, network->length()};
}

} // namespace

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
        const auto words = split_words(line);
        if (words.size() == 2 && words[0] == "|--") {
            leaf = IpAddress::parse(words[1]);
        } else if (leaf && words.size() >= 3 && words[0] == "/32" && words[2] == "LOCAL" && seen.insert(*leaf).second) {
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
