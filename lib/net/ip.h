// SPDX-License-Identifier: Apache-2.0
// IP addresses and prefixes as plain values. An IPv4 address is stored IPv4-mapped (::ffff:a.b.c.d, RFC 4291 2.5.5.2).
// A RoCE GID has the same form, so GIDs and addresses compare directly.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

class IpAddress {
public:
    using Bytes = std::array<std::uint8_t, 16>;

    constexpr IpAddress() = default; ///< "::", the unspecified address
    explicit constexpr IpAddress(const Bytes& bytes) : bytes_(bytes) {}

    /// Parses a numeric address, "10.0.0.1" or "fe80::1" (no zone, no brackets).
    static std::optional<IpAddress> parse(std::string_view text);
    /// Reads an address of the kernel's: an in_addr for AF_INET, an in6_addr for AF_INET6; nullopt for other families.
    static std::optional<IpAddress> from_kernel(int family, const void* bytes);
    /// Makes an IPv4 address from its four bytes in network order.
    static IpAddress from_ipv4(const std::array<std::uint8_t, 4>& bytes);

    [[nodiscard]] const Bytes& bytes() const { return bytes_; }
    [[nodiscard]] bool is_ipv4() const;
    [[nodiscard]] bool is_zero() const;       ///< :: or IPv4-mapped 0.0.0.0
    [[nodiscard]] bool is_loopback() const;   ///< 127/8 or ::1
    [[nodiscard]] bool is_link_local() const; ///< 169.254/16 (RFC 3927) or fe80::/10 (RFC 4291)
    [[nodiscard]] bool is_multicast() const;  ///< 224/4 or ff00::/8
    /// Returns true if another node can reach the address: it is none of the four kinds above.
    [[nodiscard]] bool is_routable() const {
        return !is_zero() && !is_loopback() && !is_link_local() && !is_multicast();
    }

    /// Returns "10.0.0.1", or the RFC 5952 text of an IPv6 address.
    [[nodiscard]] std::string text() const;

    /// Returns the text in the form that a port can follow after a colon: "10.0.0.1", "[fd00::1]".
    [[nodiscard]] std::string bracketed() const { return is_ipv4() ? text() : "[" + text() + "]"; }

    friend auto operator<=>(const IpAddress&,
                            const IpAddress&) = default; // NOLINT(modernize-use-nullptr): clang-tidy 14

private:
    Bytes bytes_{};
};

/// A network in CIDR form, "10.1.0.0/16" or "fd00::/8". The length counts from the first bit of its address family.
class IpPrefix {
public:
    /// Returns nullopt unless the text is ADDRESS/LENGTH with a length in range. Host bits may be set and are ignored.
    static std::optional<IpPrefix> parse(std::string_view text);
    /// Returns the network of an address. `length` must be 0..32 (IPv4) or 0..128 (IPv6); otherwise returns nullopt.
    static std::optional<IpPrefix> of(const IpAddress& address, unsigned length);

    [[nodiscard]] bool contains(const IpAddress& address) const; ///< false for the other address family
    [[nodiscard]] unsigned length() const { return length_; }
    [[nodiscard]] const IpAddress& address() const { return address_; }
    [[nodiscard]] std::string text() const { return address_.text() + "/" + std::to_string(length_); }

    /// By address, then by length.
    friend auto operator<=>(const IpPrefix&, const IpPrefix&) = default; // NOLINT(modernize-use-nullptr): clang-tidy 14

private:
    IpPrefix(const IpAddress& address, unsigned length) : address_(address), length_(length) {}
    IpAddress address_;
    unsigned length_ = 0;
};

} // namespace rdma_nccl
