// SPDX-License-Identifier: Apache-2.0
#include "lib/socket_address.h"

#include <array>
#include <cstring>
#include <netinet/in.h>

namespace rdma_nccl {

std::optional<IpAddress> address_of(const sockaddr* address) {
    if (address != nullptr && address->sa_family == AF_INET) {
        sockaddr_in ipv4{};
        std::memcpy(&ipv4, address, sizeof ipv4);
        std::array<std::uint8_t, 4> bytes{};
        std::memcpy(bytes.data(), &ipv4.sin_addr, bytes.size());
        return IpAddress::from_ipv4(bytes);
    }
    if (address != nullptr && address->sa_family == AF_INET6) {
        sockaddr_in6 ipv6{};
        std::memcpy(&ipv6, address, sizeof ipv6);
        IpAddress::Bytes bytes{};
        std::memcpy(bytes.data(), &ipv6.sin6_addr, bytes.size());
        return IpAddress(bytes);
    }
    return std::nullopt;
}

SocketAddress socket_address(const IpAddress& address, std::uint16_t port, int family) {
    SocketAddress result;
    if (family == AF_INET) {
        constexpr std::size_t mapped_prefix = 12;
        sockaddr_in ipv4{};
        ipv4.sin_family = AF_INET;
        ipv4.sin_port = htons(port);
        std::memcpy(&ipv4.sin_addr, address.bytes().data() + mapped_prefix, sizeof ipv4.sin_addr);
        std::memcpy(&result.storage, &ipv4, sizeof ipv4);
        result.length = sizeof ipv4;
    } else {
        sockaddr_in6 ipv6{};
        ipv6.sin6_family = AF_INET6;
        ipv6.sin6_port = htons(port);
        std::memcpy(&ipv6.sin6_addr, address.bytes().data(), sizeof ipv6.sin6_addr);
        std::memcpy(&result.storage, &ipv6, sizeof ipv6);
        result.length = sizeof ipv6;
    }
    return result;
}

} // namespace rdma_nccl
