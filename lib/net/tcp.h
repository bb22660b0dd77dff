// SPDX-License-Identifier: Apache-2.0
// TCP sockets that never block and are closed on exec (tcp(7), ipv6(7)).
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/ip.h"

#include <sys/socket.h>

namespace rdma_nccl {

enum class PortSharing {
    Alone, ///< bind fails if any other socket has the port, held or in TIME_WAIT
    Reuse, ///< SO_REUSEADDR: also beside sockets that have this option and do not listen
};

/// Binds a port on all addresses of this host, IPv6 and IPv4, or IPv4 only if the kernel has no IPv6. `port` 0: any
/// free port. Fails with the errno of bind(2), e.g. EADDRINUSE.
Result<UniqueFd> bind_port(std::uint16_t port, PortSharing sharing);

/// Lets sockets with SO_REUSEADDR bind and listen on the same port from now on.
void allow_reuse(int socket);

/// Like bind_port(), but also listens, with the largest backlog that the kernel allows.
Result<UniqueFd> listen_on(std::uint16_t port, PortSharing sharing);

/// Makes a bound socket listen and returns another descriptor of it. The socket's sharing of the port stays as it is;
/// accepted connections inherit its options.
Result<UniqueFd> listen_on_bound(int socket);

/// Stops listening: connections that wait to be accepted get a reset. A socket that was bound to a port by its number
/// stays bound, one that was bound to port 0 does not. (Linux, inet_shutdown() and tcp_disconnect(),
/// SOCK_BINDPORT_LOCK.)
void stop_listening(int socket);

/// Returns 0 if the socket has no port.
std::uint16_t local_port(int socket);
/// Returns the address to which the socket is bound, of this host.
std::optional<IpAddress> local_address(int socket);

/// Returns true for an address of this host.
bool is_local(const IpAddress& address);

/// Starts a connection: the socket is writable once it is connected or has failed. Fails at once without a route.
Result<UniqueFd> start_connection(const IpAddress& address, std::uint16_t port);

/// Returns the result of start_connection(): 0 or an errno.
int connection_error(int socket);

/// Sends small messages at once, and detects a dead peer after one or two minutes of silence.
void watch_connection(int socket);

/// Makes closing send a reset instead of leaving TIME_WAIT, in which some programs could not bind the port.
void end_with_reset(int socket);

// Conversion of IP addresses to and from the kernel's form.

/// Returns nullopt for a null pointer and for families other than AF_INET and AF_INET6.
std::optional<IpAddress> address_of(const sockaddr* address);

/// The argument of bind(2) and connect(2).
struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length = 0;

    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// `family`: AF_INET (for an IPv4 address only) or AF_INET6; AF_UNSPEC: the address's own.
SocketAddress socket_address(const IpAddress& address, std::uint16_t port, int family = AF_UNSPEC);

/// Makes a socket of `type`, SOCK_STREAM or SOCK_DGRAM, that is bound to `local`.
Result<UniqueFd> bound_socket(const SocketAddress& local, int type);

} // namespace rdma_nccl
