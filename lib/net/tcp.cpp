// SPDX-License-Identifier: Apache-2.0
#include "lib/net/tcp.h"

#include "lib/base/format.h"

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace rdma_nccl {

namespace {

void set_option(int socket, int level, int option, int value) {
    (void)::setsockopt(socket, level, option, &value, sizeof value);
}

UniqueFd new_socket(int family, int type = SOCK_STREAM) {
    return UniqueFd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Returns zeros, of the family AF_UNSPEC, if the socket has no address.
sockaddr_storage local_name(int socket) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    const bool known = ::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &length) == 0;
    return known ? storage : sockaddr_storage{};
}

Result<UniqueFd> bind_family(int family, std::uint16_t port, PortSharing sharing) {
    UniqueFd socket = new_socket(family);
    if (!socket) {
        return os_failure("socket");
    }
    if (family == AF_INET6) {
        set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    if (sharing == PortSharing::Reuse) {
        allow_reuse(socket.get());
    }
    const auto any = socket_address(IpAddress(), port, family);
    if (::bind(socket.get(), any.get(), any.length) != 0) {
        const int code = errno;
        return os_failure(format_text("port {}", port), code);
    }
    return socket;
}

} // namespace

Result<UniqueFd> bind_port(std::uint16_t port, PortSharing sharing) {
    auto socket = bind_family(AF_INET6, port, sharing);
    const bool no_ipv6 =
        !socket && (socket.error().os_error == EAFNOSUPPORT || socket.error().os_error == EADDRNOTAVAIL);
    return no_ipv6 ? bind_family(AF_INET, port, sharing) : std::move(socket);
}

void allow_reuse(int socket) {
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
}

Result<UniqueFd> listen_on(std::uint16_t port, PortSharing sharing) {
    auto socket = bind_port(port, sharing);
    if (socket && ::listen(socket->get(), INT_MAX) != 0) {
        const int code = errno;
        return os_failure(format_text("listen on port {}", port), code);
    }
    return socket;
}

Result<UniqueFd> listen_on_bound(int socket) {
    UniqueFd other(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (!other || ::listen(other.get(), INT_MAX) != 0) {
        return os_failure("listen");
    }
    return other;
}

void stop_listening(int socket) {
    (void)::shutdown(socket, SHUT_RDWR);
}

std::uint16_t local_port(int socket) {
    // sin_port and sin6_port are at the same offset (RFC 3493 3.3, sockaddr_in), so this reads both.
    sockaddr_in address{};
    const auto storage = local_name(socket);
    std::memcpy(&address, &storage, sizeof address);
    return ntohs(address.sin_port);
}

std::optional<IpAddress> local_address(int socket) {
    const auto storage = local_name(socket);
    return address_of(reinterpret_cast<const sockaddr*>(&storage));
}

bool is_local(const IpAddress& address) {
    return !address.is_zero() && bound_socket(socket_address(address, 0), SOCK_DGRAM).has_value();
}

Result<UniqueFd> start_connection(const IpAddress& address, std::uint16_t port) {
    const auto peer = socket_address(address, port);
    UniqueFd socket = new_socket(peer.storage.ss_family);
    if (!socket) {
        return os_failure("socket");
    }
    if (::connect(socket.get(), peer.get(), peer.length) != 0 && errno != EINPROGRESS) {
        const int code = errno;
        return os_failure(address.text(), code);
    }
    return socket;
}

int connection_error(int socket) {
    int code = 0;
    socklen_t length = sizeof code;
    return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno;
}

void watch_connection(int socket) {
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

void end_with_reset(int socket) {
    const linger reset{1, 0};
    (void)::setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

std::optional<IpAddress> address_of(const sockaddr* address) {
    if (address == nullptr) {
        return std::nullopt;
    }
    const auto offset =
        address->sa_family == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
    return IpAddress::from_kernel(address->sa_family, reinterpret_cast<const std::byte*>(address) + offset);
}

SocketAddress socket_address(const IpAddress& address, std::uint16_t port, int family) {
    SocketAddress result;
    if (family == AF_INET || (family == AF_UNSPEC && address.is_ipv4())) {
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

Result<UniqueFd> bound_socket(const SocketAddress& local, int type) {
    UniqueFd socket = new_socket(local.storage.ss_family, type);
    if (!socket || ::bind(socket.get(), local.get(), local.length) != 0) {
        return os_failure("socket");
    }
    return socket;
}

} // namespace rdma_nccl
