// SPDX-License-Identifier: Apache-2.0
#include "tools/ip_reach.h"

#include "lib/socket_address.h"
#include "lib/tcp.h"
#include "lib/unique_fd.h"

#include <cerrno>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>

namespace rdma_nccl {

namespace {

constexpr std::uint16_t discard_port = 9; // RFC 863: nothing comes of it where somebody listens

IpReach reach_of(int error) {
    switch (error) {
    case 0:
    case ECONNREFUSED:
    case ECONNRESET:
        return IpReach::Answers;
    case ETIMEDOUT:
        return IpReach::Silent;
    default:
        return IpReach::NoRoute;
    }
}

SocketAddress with_scope(const IpAddress& address, std::uint16_t port, const std::string& netdev) {
    auto full = socket_address(address, port, address.is_ipv4() ? AF_INET : AF_INET6);
    if (full.storage.ss_family == AF_INET6 && address.is_link_local()) {
        reinterpret_cast<sockaddr_in6*>(&full.storage)->sin6_scope_id = ::if_nametoindex(netdev.c_str());
    }
    return full;
}

} // namespace

IpReach ip_reach(const IpAddress& from, const IpAddress& to, const std::string& netdev,
                 std::chrono::milliseconds limit) {
    const auto source = with_scope(from, 0, netdev);
    const auto target = with_scope(to, discard_port, netdev);
    const UniqueFd socket(::socket(target.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket || ::bind(socket.get(), source.get(), source.length) != 0) {
        return IpReach::NoRoute;
    }
    if (::connect(socket.get(), target.get(), target.length) == 0) {
        return IpReach::Answers;
    }
    if (errno != EINPROGRESS) {
        return reach_of(errno);
    }
    pollfd waiting{socket.get(), POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(limit.count()));
    return ready > 0 ? reach_of(connection_error(socket.get())) : IpReach::Silent;
}

} // namespace rdma_nccl
