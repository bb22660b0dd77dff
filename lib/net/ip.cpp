// SPDX-License-Identifier: Apache-2.0
#include "lib/net/ip.h"

#include "lib/base/text.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>

namespace rdma_nccl {

namespace {

constexpr std::size_t ipv4_offset = 12;
constexpr unsigned ipv4_bits_before = 96;
constexpr IpAddress::Bytes mapped_prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/// Returns the address with all bits after the first `count` cleared.
IpAddress masked(const IpAddress& address, unsigned count) {
    IpAddress::Bytes bytes = address.bytes();
    for (unsigned i = 0; i < bytes.size(); ++i) {
        const unsigned kept = std::clamp(count, 8 * i, 8 * i + 8) - 8 * i;
        bytes.at(i) &= static_cast<std::uint8_t>(0xff00U >> kept);
    }
    return IpAddress(bytes);
}

} // namespace

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    const std::string terminated(text);
    Bytes bytes{};
    for (const int family : {AF_INET, AF_INET6}) {
        if (terminated.find('\0') == std::string::npos && inet_pton(family, terminated.c_str(), bytes.data()) == 1) {
            return from_kernel(family, bytes.data());
        }
    }
    return std::nullopt;
}

std::optional<IpAddress> IpAddress::from_kernel(int family, const void* bytes) {
    IpAddress address;
    if (family == AF_INET) {
        address.bytes_ = mapped_prefix;
        std::memcpy(address.bytes_.data() + ipv4_offset, bytes, address.bytes_.size() - ipv4_offset);
    } else if (family == AF_INET6) {
        std::memcpy(address.bytes_.data(), bytes, address.bytes_.size());
    } else {
        return std::nullopt;
    }
    return address;
}

IpAddress IpAddress::from_ipv4(const std::array<std::uint8_t, 4>& bytes) {
    return *from_kernel(AF_INET, bytes.data());
}

bool IpAddress::is_ipv4() const {
    return std::equal(mapped_prefix.begin(), mapped_prefix.begin() + ipv4_offset, bytes_.begin());
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

std::string IpAddress::text() const {
    std::array<char, INET6_ADDRSTRLEN> buffer{};
    inet_ntop(is_ipv4() ? AF_INET : AF_INET6, bytes_.data() + (is_ipv4() ? ipv4_offset : 0), buffer.data(),
              buffer.size());
    return buffer.data();
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
    const auto [address_text, length_text] = split_once(text, '/');
    const auto address = IpAddress::parse(address_text);
    const auto length = parse_number<unsigned>(length_text.value_or(""));
    return address && length ? of(*address, *length) : std::nullopt;
}

std::optional<IpPrefix> IpPrefix::of(const IpAddress& address, unsigned length) {
    const unsigned before = address.is_ipv4() ? ipv4_bits_before : 0;
    if (length > 128 - before) {
        return std::nullopt;
    }
    return IpPrefix(masked(address, before + length), length);
}

bool IpPrefix::contains(const IpAddress& address) const {
    return address.is_ipv4() == address_.is_ipv4() &&
           masked(address, length_ + (address_.is_ipv4() ? ipv4_bits_before : 0)) == address_;
}

} // namespace rdma_nccl
