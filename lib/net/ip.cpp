// SPDX-License-Identifier: Apache-2.0
#include "lib/net/ip.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <arpa/inet.h>

namespace rdma_nccl {

namespace {

constexpr std::size_t ipv4_offset = 12;
constexpr unsigned ipv4_bits_before = 96;
constexpr IpAddress::Bytes mapped_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool same_bits(const IpAddress::Bytes& a, const IpAddress::Bytes& b, unsigned count) {
    const std::size_t whole = count / 8;
    if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), b.begin())) {
        return false;
    }
    const unsigned rest = count % 8;
    return rest == 0 || ((a.at(whole) ^ b.at(whole)) >> (8 - rest)) == 0;
}

/// Returns the address with all bits after the first `count` cleared.
IpAddress masked(const IpAddress& address, unsigned count) {
    IpAddress::Bytes bytes = address.bytes();
    for (unsigned bit = count; bit < 128; ++bit) {
        bytes.at(bit / 8) &= static_cast<std::uint8_t>(~(0x80U >> (bit % 8)));
    }
    return IpAddress(bytes);
}

} // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    const std::string terminated(text);
    std::array<std::uint8_t, 4> ipv4{};
    if (terminated.size() != text.size() || terminated.find('\0') != std::string::npos) {
        return std::nullopt;
    }
    if (inet_pton(AF_INET, terminated.c_str(), ipv4.data()) == 1) {
        return from_ipv4(ipv4);
    }
    Bytes bytes{};
    if (inet_pton(AF_INET6, terminated.c_str(), bytes.data()) == 1) {
        return IpAddress(bytes);
    }
    return std::nullopt;
}

IpAddress IpAddress::from_ipv4(const std::array<std::uint8_t, 4>& bytes) {
    Bytes mapped = mapped_prefix;
    std::copy(bytes.begin(), bytes.end(), mapped.begin() + ipv4_offset);
    return IpAddress(mapped);
}

bool IpAddress::is_ipv4() const {
    return same_bits(bytes_, mapped_prefix, ipv4_bits_before);
}

bool IpAddress::is_zero() const {
    return *this == IpAddress() || *this == from_ipv4({0, 0, 0, 0});
}

bool IpAddress::is_loopback() const {
    constexpr Bytes ipv6_loopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return is_ipv4() ? bytes_[ipv4_offset] == 127 : bytes_ == ipv6_loopback;
}

bool IpAddress::is_link_local() const {
    if (is_ipv4()) {
        return bytes_[ipv4_offset] == 169 && bytes_[ipv4_offset + 1] == 254;
    }
    return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

bool IpAddress::is_multicast() const {
    return is_ipv4() ? (bytes_[ipv4_offset] & 0xf0) == 0xe0 : bytes_[0] == 0xff;
}

bool IpAddress::is_routable() const {
    return !is_zero() && !is_loopback() && !is_link_local() && !is_multicast();
}

std::string IpAddress::bracketed() const {
    return is_ipv4() ? text() : "[" + text() + "]";
}

std::string IpAddress::text() const {
    std::array<char, INET6_ADDRSTRLEN> buffer{};
    if (is_ipv4()) {
        inet_ntop(AF_INET, bytes_.data() + ipv4_offset, buffer.data(), buffer.size());
    } else {
        inet_ntop(AF_INET6, bytes_.data(), buffer.data(), buffer.size());
    }
    return buffer.data();
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
    const auto [address_text, length_text] = split_once(text, '/');
    const auto address = IpAddress::parse(address_text);
    const auto length = parse_number<unsigned>(length_text.value_or(""));
    if (!address || !length) {
        return std::nullopt;
    }
    return of(*address, *length);
}

std::optional<IpPrefix> IpPrefix::of(const IpAddress& address, unsigned length) {
    const unsigned before = address.is_ipv4() ? ipv4_bits_before : 0;
    if (length > 128 - before) {
        return std::nullopt;
    }
    return IpPrefix(masked(address, before + length), length);
}

bool IpPrefix::contains(const IpAddress& address) const {
    if (address.is_ipv4() != address_.is_ipv4()) {
        return false;
    }
    return same_bits(address.bytes(), address_.bytes(), length_ + (address_.is_ipv4() ? ipv4_bits_before : 0));
}

std::string IpPrefix::text() const {
    return format_text("{}/{}", address_.text(), length_);
}

} // namespace rdma_nccl
