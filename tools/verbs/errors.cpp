// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/errors.h"

#include "lib/base/format.h"
#include "lib/net/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <linux/errqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/uio.h>
#include <utility>

namespace rdma_nccl {

namespace {

// Headers of a full RoCE v2 packet of a write: IPv4, UDP, BTH, RETH, ICRC. IPv6 has 20 bytes more.
constexpr unsigned roce_headers = 20 + 8 + 12 + 16 + 4;

constexpr std::pair<int, std::string_view> status_names[] = {
    {wc_loc_len, "LOC_LEN_ERR"},
    {wc_loc_qp_op, "LOC_QP_OP_ERR"},
    {wc_loc_prot, "LOC_PROT_ERR"},
    {wc_flushed, "WR_FLUSH_ERR"},
    {wc_bad_resp, "BAD_RESP_ERR"},
    {wc_loc_access, "LOC_ACCESS_ERR"},
    {wc_rem_inv_req, "REM_INV_REQ_ERR"},
    {wc_rem_access, "REM_ACCESS_ERR"},
    {wc_rem_op, "REM_OP_ERR"},
    {wc_retry_exc, "RETRY_EXC_ERR"},
    {wc_rnr_retry_exc, "RNR_RETRY_EXC_ERR"},
    {wc_rem_abort, "REM_ABORT_ERR"},
    {wc_fatal, "FATAL_ERR"},
    {wc_resp_timeout, "RESP_TIMEOUT_ERR"},
    {wc_general, "GENERAL_ERR"},
};

std::string status_text(const TransferFailure& failure) {
    if (failure.status == wc_success) {
        return "nothing completes";
    }
    return failure.vendor_error == 0
               ? wc_name(failure.status)
               : format_text("{}, vendor error 0x{:x}", wc_name(failure.status), failure.vendor_error);
}

/// Returns true if the peer's HCA has sent nothing back.
bool no_answer(int status) {
    return status == wc_success || status == wc_retry_exc || status == wc_resp_timeout || status == wc_flushed;
}

VerbsDiagnosis gone(const TransferFailure& failure, const VerbsLink& link) {
    return {
        VerbsCause::PeerGone,
        format_text("{} stopped answering ({}) after it had worked: its process or node has ended, or the link went "
                    "down; look at that node, and at the link's state on both",
                    link.peer_gid, status_text(failure))};
}

VerbsDiagnosis mtu(const TransferFailure& failure, const VerbsLink& link) {
    auto text =
        format_text("small packets reach {}, packets of {} bytes do not ({}): MTU, or heavy loss: the MTU of a "
                    "switch port or of an interface on the way is too small for RDMA's, or most packets are dropped",
                    link.peer_gid, link.path_mtu, status_text(failure));
    if (link.ethernet && link.netdev_mtu != 0 && link.netdev_mtu < link.path_mtu + roce_headers) {
        text += format_text("; {} itself has MTU {} here", link.netdev, link.netdev_mtu);
    }
    text += "; set the same MTU on all nodes (ip link) and a greater one on the switches, and see `ping -M do -s "
            "SIZE` between them; where that passes, look at the counters of drops and errors of both ports and of the "
            "switches";
    return {VerbsCause::Mtu, text};
}

VerbsDiagnosis nothing_arrives(const TransferFailure& failure, const VerbsLink& link) {
    const auto what = status_text(failure);
    if (!link.ethernet) {
        return {VerbsCause::Unreachable,
                format_text("no answer from {} ({}): no path through the fabric, or another partition; see the subnet "
                            "manager, `ibstat` and `ibtracert`",
                            link.peer_gid, what)};
    }
    if (failure.ip_reaches) {
        return {
            VerbsCause::Filtered,
            format_text("no answer from {} ({}), although IP reaches it: a firewall or a switch drops UDP port 4791 "
                        "(RoCE v2), or PFC has stopped this traffic class; see `nft list ruleset` on both nodes and "
                        "the switches' filters; else GID index {} ({}) belongs to another network or VLAN",
                        link.peer_gid, what, link.gid_index, link.gid)};
    }
    return {
        VerbsCause::Unreachable,
        format_text("no answer from {} ({}), and IP does not reach it either: other VLAN or subnet than GID index {} "
                    "({}, {}), a link or switch that is down, that node, or a firewall that lets nothing through; see "
                    "`ping -I {} {}`",
                    link.peer_gid, what, link.gid_index, link.gid, link.netdev, link.netdev, link.peer_gid)};
}

} // namespace

std::string_view name_of(VerbsCause cause) {
    constexpr std::array<std::string_view, 10> names{"no-route", "wrong-gid", "namespace", "unreachable", "filtered",
                                                     "mtu",      "peer-gone", "refused",   "mismatch",    "local"};
    return names.at(static_cast<std::size_t>(cause));
}

std::string wc_name(int status) {
    const auto* const found = std::ranges::find(status_names, status, &std::pair<int, std::string_view>::first);
    return found != std::end(status_names) ? std::string(found->second) : format_text("status {}", status);
}

VerbsDiagnosis diagnose(int os_error, const VerbsLink& link) {
    const std::string why = std::strerror(os_error);
    switch (os_error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ETIMEDOUT:
    case EHOSTDOWN:
        return {VerbsCause::NoRoute,
                format_text("no way from GID index {} ({}) to {} ({}): no route, or nobody answers to ARP there: other "
                            "subnet or VLAN, peer down, or a wrong GID index; see `ip route get {}` and `ip neigh`",
                            link.gid_index, link.gid, link.peer_gid, why, link.peer_gid)};
    case ENODEV:
    case ENXIO:
        return {VerbsCause::Namespace,
                format_text("the network interface of GID index {} ({}) is gone or in another network namespace ({}); "
                            "in a container give it the host's network or the HCA's interface",
                            link.gid_index, link.gid, why)};
    case EINVAL:
    case EADDRNOTAVAIL:
    case ENOENT:
        return {VerbsCause::WrongGid,
                format_text("the HCA does not connect GID index {} ({}) with {} ({}): the entry is empty or of another "
                            "RoCE version or address family than the peer's; see `rdma-nccl gids` on both nodes",
                            link.gid_index, link.gid, link.peer_gid, why)};
    default:
        return {VerbsCause::Local, format_text("the HCA does not connect GID index {} ({}) with {}: {}", link.gid_index,
                                               link.gid, link.peer_gid, why)};
    }
}

bool wants_reach(const TransferFailure& failure, const VerbsLink& link) {
    return link.ethernet && no_answer(failure.status) && !failure.small_passed && !failure.large_passed;
}

VerbsDiagnosis diagnose(const TransferFailure& failure, const VerbsLink& link) {
    if (no_answer(failure.status)) {
        if (!failure.small_passed && !failure.large_passed) {
            return nothing_arrives(failure, link);
        }
        return failure.large && !failure.large_passed ? mtu(failure, link) : gone(failure, link);
    }
    switch (failure.status) {
    case wc_rem_access:
    case wc_rem_inv_req:
    case wc_rem_op:
    case wc_rem_abort:
    case wc_rnr_retry_exc:
        return {
            VerbsCause::Refused,
            format_text("{} refuses writes ({}): its process has ended or begun anew, or another one answers in its "
                        "place (two nodes with the same GID); see `rdma-nccl gids` on both",
                        link.peer_gid, status_text(failure))};
    default:
        return {VerbsCause::Local,
                format_text("the HCA reports {} for a write to {}: a fault of this side's memory, HCA or driver; see "
                            "`dmesg`",
                            status_text(failure), link.peer_gid)};
    }
}

// --- The test over IP ---

namespace {

constexpr std::uint16_t discard_port = 9; // RFC 863: a listener ignores what it receives

SocketAddress with_scope(const IpAddress& address, std::uint16_t port, const std::string& netdev) {
    auto full = socket_address(address, port);
    if (!address.is_ipv4() && address.is_link_local()) {
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

/// Tests for a prohibiting ICMP error with UDP: TCP does not show its sender and code (before Linux 5.9 not at all).
bool prohibits(const SocketAddress& source, const SocketAddress& target, const IpAddress& to,
               std::chrono::milliseconds limit) {
    const auto socket = bound_socket(source, SOCK_DGRAM);
    const int fd = socket ? socket->get() : -1;
    const int on = 1;
    const auto [level, option] =
        to.is_ipv4() ? std::pair(IPPROTO_IP, IP_RECVERR) : std::pair(IPPROTO_IPV6, IPV6_RECVERR);
    if (::setsockopt(fd, level, option, &on, sizeof on) != 0 || ::connect(fd, target.get(), target.length) != 0 ||
        ::send(fd, "", 0, MSG_NOSIGNAL) < 0) {
        return false;
    }
    pollfd waiting{fd, 0, 0}; // POLLERR is always reported
    if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) {
        return false;
    }
    const auto error = next_icmp_error(fd);
    return error && icmp_is_answer(*error, to);
}

/// Returns the errno of a TCP connection; ETIMEDOUT if nothing answers.
int tcp_error(const SocketAddress& source, const SocketAddress& target, std::chrono::milliseconds limit) {
    const auto socket = bound_socket(source, SOCK_STREAM);
    if (!socket) {
        return socket.error().os_error;
    }
    if (::connect(socket->get(), target.get(), target.length) != 0 && errno != EINPROGRESS) {
        return errno;
    }
    pollfd waiting{socket->get(), POLLOUT, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(limit.count()));
    return ready > 0 ? connection_error(socket->get()) : ETIMEDOUT;
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

bool ip_reaches(const IpAddress& from, const IpAddress& to, const std::string& netdev,
                std::chrono::milliseconds limit) {
    const auto source = with_scope(from, 0, netdev);
    const auto target = with_scope(to, discard_port, netdev);
    const int error = tcp_error(source, target, limit);
    const bool answers = error == 0 || error == ECONNREFUSED || error == ECONNRESET;
    return answers || (error != ETIMEDOUT && prohibits(source, target, to, limit));
}

} // namespace rdma_nccl
