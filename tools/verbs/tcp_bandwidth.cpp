// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/tcp_bandwidth.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/net/tcp.h"
#include "tools/verbs/rail.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace rdma_nccl {

namespace {

using std::chrono::milliseconds;
using Clock = SteadyRate::Clock;
using Stop = std::function<bool()>;

constexpr std::size_t chunk = std::size_t{1} << 20;
constexpr milliseconds sample{50};     // between checks of the clock and of `stop`
constexpr milliseconds meeting{5000};  // until all connections are established
constexpr milliseconds emptying{3000}; // after the time, for data in flight

tl::unexpected<Error> failed(std::string_view what, const IpAddress& address, int code) {
    return fail(format_text("TCP: {} {}: {}", what, address.text(), std::strerror(code)), code);
}

Result<UniqueFd> socket_on(const IpAddress& address) {
    auto socket = bound_socket(socket_address(address, 0), SOCK_STREAM);
    return socket ? std::move(socket) : failed("no socket on", address, socket.error().os_error);
}

/// Calls `ready(index)` for sockets with events, until it returns false, the time is over or `stop` returns true.
template<typename Ready>
void attend(std::vector<pollfd>& sockets, Clock::time_point end, const Stop& stop, Ready&& ready) {
    auto asked = Clock::now();
    for (auto now = asked; now < end; now = Clock::now()) {
        if (now - asked >= sample) {
            asked = now;
            if (stop && stop()) {
                return;
            }
        }
        if (::poll(sockets.data(), sockets.size(), static_cast<int>(sample.count())) <= 0) {
            continue;
        }
        for (std::size_t i = 0; i < sockets.size(); ++i) {
            if (sockets[i].fd >= 0 && sockets[i].revents != 0 && !ready(i)) {
                return;
            }
        }
    }
}

std::vector<pollfd> watched(const std::vector<UniqueFd>& sockets, short events) {
    return mapped(sockets, [events](const UniqueFd& socket) { return pollfd{socket.get(), events, 0}; });
}

std::vector<UniqueFd> accept_all(int listener, unsigned connections, const Stop& stop) {
    std::vector<UniqueFd> accepted;
    std::vector<pollfd> waiting{{listener, POLLIN, 0}};
    attend(waiting, Clock::now() + meeting, stop, [&](std::size_t) {
        UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket) {
            accepted.push_back(std::move(socket));
        }
        return accepted.size() < connections;
    });
    return accepted;
}

Result<std::vector<UniqueFd>> connect_all(const IpAddress& from, const IpAddress& to, std::uint16_t port,
                                          unsigned connections, const Stop& stop) {
    std::vector<UniqueFd> sockets;
    const auto target = socket_address(to, port);
    for (unsigned i = 0; i < connections; ++i) {
        auto socket = socket_on(from);
        if (!socket) {
            return tl::unexpected(socket.error());
        }
        if (::connect(socket->get(), target.get(), target.length) != 0 && errno != EINPROGRESS) {
            return failed("no connection to", to, errno);
        }
        sockets.push_back(std::move(*socket));
    }
    auto waiting = watched(sockets, POLLOUT);
    int error = ETIMEDOUT;
    unsigned standing = 0;
    attend(waiting, Clock::now() + meeting, stop, [&](std::size_t i) {
        error = connection_error(waiting[i].fd);
        waiting[i].fd = -1;
        return error == 0 && ++standing < connections;
    });
    if (standing < connections) {
        return failed("no connection to", to, error == 0 ? ETIMEDOUT : error);
    }
    return sockets;
}

/// Measures what `move(socket, more)` transfers for `time` and `longer`. It clears `more` at the end.
template<typename Move>
TcpBandwidth transfer(const std::vector<UniqueFd>& sockets, short events, milliseconds time, milliseconds longer,
                      const Stop& stop, const Move& move) {
    auto list = watched(sockets, events);
    const auto begin = Clock::now();
    SteadyRate rate(begin, time);
    std::uint64_t bytes = 0;
    attend(list, begin + time + longer, stop, [&](std::size_t i) {
        bool more = true;
        if (const ssize_t count = move(list[i], more); count > 0) {
            bytes += static_cast<std::uint64_t>(count);
            rate.add(Clock::now(), bytes);
        }
        return more;
    });
    if (stop && stop()) {
        rate.cut(Clock::now());
    }
    return {rate.gbps(), bytes};
}

} // namespace

Result<TcpReceiver> TcpReceiver::listen(const IpAddress& address) {
    auto socket = socket_on(address);
    if (!socket) {
        return tl::unexpected(socket.error());
    }
    if (::listen(socket->get(), SOMAXCONN) != 0) {
        return failed("cannot listen on", address, errno);
    }
    return TcpReceiver(std::move(*socket));
}

std::uint16_t TcpReceiver::port() const {
    return local_port(socket_.get());
}

Result<TcpBandwidth> TcpReceiver::receive(milliseconds time, unsigned connections, const Stop& stop) {
    auto sockets = accept_all(socket_.get(), connections, stop);
    if (sockets.size() < connections && !(stop && stop())) {
        return fail(format_text("TCP: {} of {} connections have come", sockets.size(), connections), ETIMEDOUT);
    }
    std::vector<std::byte> buffer(chunk);
    auto open = sockets.size();
    return transfer(sockets, POLLIN, time, emptying, stop, [&](pollfd& socket, bool& more) {
        const auto count = ::recv(socket.fd, buffer.data(), buffer.size(), 0);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
            socket.fd = -1;
            more = --open > 0;
        }
        return count;
    });
}

Result<TcpBandwidth> send_tcp(const IpAddress& from, const IpAddress& to, std::uint16_t port, unsigned connections,
                              milliseconds time, const Stop& stop) {
    auto sockets = connect_all(from, to, port, connections, stop);
    if (!sockets) {
        return tl::unexpected(sockets.error());
    }
    const std::vector<std::byte> buffer(chunk);
    int error = 0;
    const auto sent = transfer(*sockets, POLLOUT, time, milliseconds(0), stop, [&](pollfd& socket, bool& more) {
        const auto count = ::send(socket.fd, buffer.data(), buffer.size(), MSG_NOSIGNAL);
        if (count <= 0 && errno != EAGAIN && errno != EINTR) {
            error = errno;
            more = false;
        }
        return count;
    });
    for (const auto& socket : *sockets) {
        end_with_reset(socket.get()); // unsent data need not arrive
    }
    if (error != 0) {
        return failed("lost the connection to", to, error);
    }
    return sent;
}

} // namespace rdma_nccl
