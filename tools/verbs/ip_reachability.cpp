// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/errors.h"

#include "lib/base/unique_fd.h"
#include "lib/net/tcp.h"

#include <array>
#include <cerrno>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace rdma_nccl {

namespace {

constexpr std::uint16_t discard_port = 9; // RFC 863: a listener ignores what it receives

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

/// Reads the first ICMP error from the queue.
std::optional<IcmpError> next_icmp_error(int socket) {
    alignas(cmsghdr) std::array<char, 512> control{};
    std::array<char, 64> bytes{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
        return std::nullopt;
    }
    for (auto* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
        const bool v4 = item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_RECVERR;
        const bool v6 = item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_RECVERR;
        if (!v4 && !v6) {
            continue;
        }
        auto* const error = reinterpret_cast<sock_extended_err*>(CMSG_DATA(item));
        if (error->ee_origin == SO_EE_ORIGIN_ICMP || error->ee_origin == SO_EE_ORIGIN_ICMP6) {
            return IcmpError{error->ee_origin == SO_EE_ORIGIN_ICMP6, error->ee_type, error->ee_code,
                             address_of(SO_EE_OFFENDER(error))};
        }
    }
    return std::nullopt;
}

/// Tests for a prohibiting ICMP error with UDP, because TCP does not show its sender and code (before Linux 5.9 not at
/// all).
bool prohibits(const SocketAddress& source, const SocketAddress& target, const IpAddress& to,
               std::chrono::milliseconds limit) {
    const UniqueFd socket(::socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    const bool v4 = target.storage.ss_family == AF_INET;
    if (!socket || ::bind(socket.get(), source.get(), source.length) != 0 ||
        ::setsockopt(socket.get(), v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, &on, sizeof on) !=
            0 ||
        ::connect(socket.get(), target.get(), target.length) != 0 || ::send(socket.get(), "", 0, MSG_NOSIGNAL) < 0) {
        return false;
    }
    pollfd waiting{socket.get(), 0, 0}; // POLLERR is always reported
    if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) {
        return false;
    }
    const auto error = next_icmp_error(socket.get());
    return error && icmp_is_answer(*error, to);
}

IpReach tcp_reach(const SocketAddress& source, const SocketAddress& target, std::chrono::milliseconds limit) {
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

} // namespace

bool icmp_is_answer(const IcmpError& error, const IpAddress& peer) {
    constexpr std::uint8_t unreachable_v4 = 3;
    constexpr std::uint8_t unreachable_v6 = 1;
    const bool prohibited =
        error.v6 ? error.type == unreachable_v6 && error.code == 1
                 : error.type == unreachable_v4 && (error.code == 9 || error.code == 10 || error.code == 13);
    return prohibited || error.from == peer;
}

IpReach ip_reach(const IpAddress& from, const IpAddress& to, const std::string& netdev,
                 std::chrono::milliseconds limit) {
    const auto source = with_scope(from, 0, netdev);
    const auto target = with_scope(to, discard_port, netdev);
    const auto reach = tcp_reach(source, target, limit);
    return reach == IpReach::NoRoute && prohibits(source, target, to, limit) ? IpReach::Answers : reach;
}

} // namespace rdma_nccl
