// SPDX-License-Identifier: Apache-2.0
// IP addresses to and from the kernel's form.
#pragma once

#include "lib/ip.h"

#include <cstdint>
#include <optional>
#include <sys/socket.h>

namespace rdma_nccl {

/// nullopt for a null pointer and for other families than AF_INET and AF_INET6.
std::optional<IpAddress> address_of(const sockaddr* address);

/// What bind(2) and connect(2) take.
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;

    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// `family`: AF_INET, for an IPv4 address only, or AF_INET6.
SocketAddress socket_address(const IpAddress& address, std::uint16_t port, int family);

} // namespace rdma_nccl
