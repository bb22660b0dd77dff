// SPDX-License-Identifier: Apache-2.0
// The connecting side: tries the addresses of a coordinator until one proves that it has the key. Only dial() waits.
#pragma once

#include "lib/net/ip.h"
#include "lib/net/session.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace rdma_nccl {

/// One connection attempt, from connect(2) to the proof.
class DialAttempt {
public:
    DialAttempt(const IpAddress& address, std::uint16_t port, Session session);

    /// Returns the descriptor to poll for events(): output until TCP is connected, then input. -1 after a failure.
    [[nodiscard]] int fd() const { return connection_ ? connection_->fd() : -1; }
    /// Returns flags of poll(2); epoll(7) has the same values.
    [[nodiscard]] short events() const { return static_cast<short>(connected_ ? POLLIN : POLLOUT); }
    /// Call this when fd() is ready.
    void go_on();
    [[nodiscard]] bool is_proven() const { return connection_ && connection_->is_proven(); }
    /// Returns true if TCP is, or was, connected.
    [[nodiscard]] bool is_connected() const { return connected_; }
    /// Returns 0, the errno of the failure, or EPROTO if something else answers at the address.
    [[nodiscard]] int error() const { return error_; }
    /// Hands over the connection; only after the proof.
    Connection take() { return std::move(*connection_); }

private:
    std::optional<Connection> connection_;
    bool connected_ = false;
    int error_ = 0;
};

struct DialTarget {
    std::vector<IpAddress> addresses; ///< in the order in which to try them
    std::uint16_t port = 0;
    Key key;
    std::string context;
    std::size_t longest_message = 0; ///< from the coordinator
    bool waits_for_listener = false; ///< retry an address that refuses, until the deadline
};

class Dialer {
public:
    using Clock = std::chrono::steady_clock;

    explicit Dialer(DialTarget target);

    /// Returns the descriptor to poll: readable when work() has something to do.
    [[nodiscard]] int fd() const { return events_.get(); }
    /// Returns the latest time for the next call of work().
    [[nodiscard]] Clock::time_point deadline() const;
    /// Does what can be done without waiting. Starts the next address each quarter of a second while the earlier ones
    /// have not answered. Retries an address that closes the connection before the proof, because a full coordinator
    /// may have dropped it. Returns the connection once one is proven.
    std::optional<Connection> work();
    /// Returns true if any address has accepted a connection and has not closed it.
    [[nodiscard]] bool is_connected() const {
        return std::ranges::any_of(tries_, [](const Try& one) { return one.attempt && one.attempt->is_connected(); });
    }
    /// Returns true if all addresses have failed for good.
    [[nodiscard]] bool is_hopeless() const {
        return std::ranges::all_of(tries_, [](const Try& one) { return !one.attempt && !one.next; });
    }
    /// Returns the last failure of each address: "10.0.0.1 port 7: Connection refused; ...".
    [[nodiscard]] std::string problem() const;

private:
    /// An address is being tried (`attempt`), waits for its turn (`next`), or is given up (neither).
    struct Try {
        std::optional<DialAttempt> attempt;
        std::optional<Clock::time_point> next = Clock::time_point(); ///< do not try earlier
        unsigned failures = 0;
        unsigned refusals = 0; ///< those of the network: nothing listens there, say
        std::string problem;
    };
    void start_due();
    void note_failure(Try& one);
    void watch(std::size_t i, int operation) const;

    DialTarget target_;
    UniqueFd events_; ///< epoll
    std::vector<Try> tries_;
    Clock::time_point next_start_;
};

/// Waits until one connection is proven. TCP must connect before `connected`, and the proof must arrive before
/// `deadline`: a listener may be busy at first. Fails with the problem of each address.
Result<Connection> dial(DialTarget target, Dialer::Clock::time_point connected, Dialer::Clock::time_point deadline);

/// Returns the addresses of `all` that are worth trying from this host. An address that this host also has belongs to
/// the other host only if that is this host, which then has all of them: container bridges are the same everywhere.
std::vector<IpAddress> without_own(std::vector<IpAddress> all, const std::vector<IpAddress>& own);

} // namespace rdma_nccl
