// SPDX-License-Identifier: Apache-2.0
// TCP sockets that never block and no child keeps (tcp(7), ipv6(7)).
#pragma once

#include "lib/ip.h"
#include "lib/result.h"
#include "lib/unique_fd.h"

#include <cstdint>
#include <optional>
#include <sys/socket.h>

namespace rdma_nccl {

enum class PortSharing {
    Alone, ///< bind fails when anything else has the port, be it held or in TIME_WAIT
    Reuse, ///< SO_REUSEADDR: beside sockets that have it too and do not listen
};

/// Bound to a port of all addresses of this host, IPv6 and IPv4; of IPv4 only where the kernel has no IPv6. `port` 0:
/// any. The error is the one of bind(2), as EADDRINUSE.
Result<UniqueFd> bind_port(std::uint16_t port, PortSharing sharing);

/// Lets sockets with SO_REUSEADDR bind and listen on the same port from now on.
void allow_reuse(int socket);

/// The same listening; backlog is the greatest that the kernel allows.
Result<UniqueFd> listen_on(std::uint16_t port, PortSharing sharing);

/// Lets a bound socket listen, and another descriptor of it is what comes back. The port is shared with nobody but
/// whom the socket shares it with; the connections that are accepted have its options.
Result<UniqueFd> listen_on_bound(int socket);

/// The opposite: whoever waits to be accepted gets a reset. A socket that was bound to a port by its number stays
/// bound, one that was bound to port 0 does not. (Linux, inet_shutdown() and tcp_disconnect(), SOCK_BINDPORT_LOCK.)
void stop_listening(int socket);

/// 0 when the socket has none.
std::uint16_t local_port(int socket);

/// A connection in the making: writable once it stands or has failed. Fails at once where there is no way.
Result<UniqueFd> start_connection(const IpAddress& address, std::uint16_t port);

/// What became of it: 0, or the errno.
int connection_error(int socket);

/// Small messages go at once, and a peer that is gone is noticed after a minute or two of silence.
void watch_connection(int socket);

/// When it is closed it ends with a reset in the place of TIME_WAIT, in which the port would be taken for some
/// programs.
void end_with_reset(int socket);

/// The same at once.
void close_without_trace(UniqueFd socket);

// IP addresses to and from the kernel's form.

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
