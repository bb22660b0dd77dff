// SPDX-License-Identifier: Apache-2.0
// One end of a connection with its session, which blocks: for tests that say what they like, byte by byte if need be.
#pragma once

#include "lib/net/session.h"
#include "lib/net/tcp.h"

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <utility>

namespace rdma_nccl::test {

inline constexpr int timeout_seconds = 30; // of a test for anything

inline void limit_waits(const UniqueFd& socket) {
    const timeval limit{timeout_seconds, 0};
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/// A blocking connection to a port of this host; none when nobody listens.
inline UniqueFd connect_to(std::uint16_t port, std::string_view address = "127.0.0.1") {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    limit_waits(socket);
    watch_connection(socket.get());
    const auto peer = socket_address(IpAddress::parse(address).value(), port, AF_INET);
    if (::connect(socket.get(), peer.get(), peer.length) != 0) {
        return {};
    }
    return socket;
}

inline bool say(const UniqueFd& socket, std::string_view bytes) {
    return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Exactly so many bytes; fewer when the connection ends.
inline std::string hear(const UniqueFd& socket, std::size_t count) {
    std::string bytes(count, '\0');
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_WAITALL);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
}

/// True when the other side ends the connection, whatever it says before.
inline bool is_ended(const UniqueFd& socket) {
    std::array<char, 1024> buffer{};
    ssize_t count = 0;
    while ((count = ::recv(socket.get(), buffer.data(), buffer.size(), 0)) > 0) {
    }
    return count == 0 || errno == ECONNRESET;
}

inline bool is_open(const UniqueFd& socket) {
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

class Channel {
public:
    enum class Pace { AllAtOnce, ByteByByte };

    Channel(UniqueFd socket, Session session, Pace pace = Pace::AllAtOnce)
        : socket_(std::move(socket)), session_(std::move(session)), pace_(pace) {}

    /// Whether both have proved that they have the key, as far as this end can tell.
    bool shake_hands() {
        while (flush() && !session_.is_proven()) {
            if (!receive()) {
                return false;
            }
        }
        return session_.is_proven() && flush();
    }
    void queue(std::string body) { session_.send(std::make_shared<const std::string>(std::move(body))); }
    bool say(std::string body) {
        queue(std::move(body));
        return flush();
    }
    /// All but the last byte of what is queued.
    bool say_almost() {
        std::string bytes;
        for (auto part = session_.output(); !part.empty(); part = session_.output()) {
            bytes += part;
            session_.written(part.size());
        }
        bytes.pop_back();
        return send(bytes);
    }
    /// The next message; nullopt when the connection ends before.
    std::optional<std::string> hear() {
        auto message = session_.next_message();
        while (!message && receive()) {
            message = session_.next_message();
        }
        return message;
    }
    [[nodiscard]] const UniqueFd& socket() const { return socket_; }
    UniqueFd take_socket() { return std::move(socket_); }

private:
    bool send(std::string_view bytes) {
        const auto size = pace_ == Pace::ByteByByte ? 1 : bytes.size();
        for (; !bytes.empty(); bytes.remove_prefix(size)) {
            if (!test::say(socket_, bytes.substr(0, size))) {
                return false;
            }
        }
        return true;
    }
    bool flush() {
        for (auto part = session_.output(); !part.empty(); part = session_.output()) {
            if (!send(part)) {
                return false;
            }
            session_.written(part.size());
        }
        return true;
    }
    bool receive() {
        std::array<char, 4096> bytes{};
        const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        return count > 0 && session_.receive({bytes.data(), static_cast<std::size_t>(count)});
    }

    UniqueFd socket_;
    Session session_;
    Pace pace_;
};

} // namespace rdma_nccl::test
