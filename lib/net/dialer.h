// SPDX-License-Identifier: Apache-2.0
// The side that connects: tries the addresses of a coordinator until one proves that it has the key. It never waits by
// itself; dial() does for those who have nothing else to do.
#pragma once

#include "lib/ip.h"
#include "lib/net/connection.h"
#include "lib/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// One connection in the making, from connect(2) to the proof.
class DialAttempt {
public:
    DialAttempt(const IpAddress& address, std::uint16_t port, Session session);

    /// To be polled for events(): output until the connection stands, then input. -1 when it has failed.
    [[nodiscard]] int fd() const { return connection_ ? connection_->fd() : -1; }
    [[nodiscard]] short events() const; ///< of poll(2), and of epoll(7), which has the same ones
    /// Something has happened at fd().
    void go_on();
    [[nodiscard]] bool is_proven() const { return connection_ && connection_->is_proven(); }
    /// Whether TCP's connection stands, or stood.
    [[nodiscard]] bool is_connected() const { return connected_; }
    /// What it failed with: 0, an errno, or EPROTO for something else that answers there.
    [[nodiscard]] int error() const { return error_; }
    /// After the proof.
    Connection take() { return std::move(*connection_); }

private:
    std::optional<Connection> connection_;
    bool connected_ = false;
    int error_ = 0;
};

struct DialTarget {
    std::vector<IpAddress> addresses; ///< in the order to try them
    std::uint16_t port = 0;
    Key key;
    std::string context;
    std::size_t longest_message = 0; ///< from the coordinator
    bool waits_for_listener = false; ///< an address that refuses is tried again, until the end
};

class Dialer {
public:
    using Clock = std::chrono::steady_clock;

    explicit Dialer(DialTarget target);

    /// Readable when work() has something to do.
    [[nodiscard]] int fd() const { return events_.get(); }
    /// When work() has to be called at the latest.
    [[nodiscard]] Clock::time_point deadline() const;
    /// Does what can be done now: the next addresses are tried while those before have not answered, a quarter of a
    /// second later each. One that closes the connection before the proof is tried again: it may have been crowded
    /// out. The connection, once one is proven.
    std::optional<Connection> work();
    /// Whether any address has taken a connection, and has not closed it.
    [[nodiscard]] bool is_connected() const;
    /// Whether all have failed for good.
    [[nodiscard]] bool is_hopeless() const;
    /// What every address failed with last: "10.0.0.1 port 7: Connection refused; ...".
    [[nodiscard]] std::string problem() const;

private:
    struct Try {
        std::optional<DialAttempt> attempt;
        Clock::time_point next; ///< not to be tried before
        unsigned failures = 0;
        std::string problem;
    };
    void start_due();
    void note_failure(Try& one);
    [[nodiscard]] bool is_given_up(const Try& one) const;
    void watch(std::size_t i, int operation) const;

    DialTarget target_;
    UniqueFd events_; ///< epoll
    std::vector<Try> tries_;
    Clock::time_point next_start_;
};

/// Until one is proven. A connection has to stand before `connected`, and to be proven before `deadline`: who listens
/// may be busy at first. Fails with what every address said.
Result<Connection> dial(DialTarget target, Dialer::Clock::time_point connected, Dialer::Clock::time_point deadline);

/// Addresses of `all` that are worth a try here. An address that this host has, too, is the other's only where the
/// other runs here, that is, where this host has all of them: container bridges are the same everywhere.
std::vector<IpAddress> without_own(std::vector<IpAddress> all, const std::vector<IpAddress>& own);

} // namespace rdma_nccl
