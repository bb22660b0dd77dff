// SPDX-License-Identifier: Apache-2.0
// The real connection test (doc/design.md, Exchange): the head node listens where rank 0 will, and every other node
// connects; both prove that they have the step's key, and that the head has the address that the other has dialled.
#pragma once

#include "lib/exchange_values.h"
#include "lib/net/coordinator.h"
#include "lib/result.h"

#include <chrono>
#include <cstdint>

namespace rdma_nccl {

/// The head node's side. Leaves no port in TIME_WAIT: its connections end with a reset, unless the peer ended first.
class ReachListener {
public:
    /// On `held`, a socket that holds `port` and is back in its place afterwards: so nobody else can have the port
    /// meanwhile. Without one (below 0) on `port` itself; on any port when that one cannot be had or `port` is 0.
    /// `key`: the step's.
    static Result<ReachListener> open(std::uint16_t port, const Key& key, int held = -1);

    ReachListener(ReachListener&&) = default;
    ~ReachListener();

    [[nodiscard]] std::uint16_t port() const { return coordinator_.port(); }
    /// Readable when serve() has something to do.
    [[nodiscard]] int descriptor() const { return coordinator_.fd(); }
    /// When serve() has to be called at the latest; absent: only when descriptor() is readable.
    [[nodiscard]] std::optional<Coordinator::Clock::time_point> deadline() const { return coordinator_.deadline(); }
    /// Answers who has come; never waits.
    void serve() { (void)coordinator_.work(); }

private:
    explicit ReachListener(Coordinator coordinator) : coordinator_(std::move(coordinator)) {}
    static Result<UniqueFd> listen(std::uint16_t port, int held);

    Coordinator coordinator_;
};

/// How long a test may take: a lost SYN is sent again after one second (RFC 6298).
inline constexpr std::chrono::milliseconds reach_timeout(2500);

/// Another node's side: tries all addresses at once. ETIMEDOUT for what did not answer in time, EPROTO for something
/// else that answers there, EADDRNOTAVAIL for an address that this node has itself and that is not tried.
ReachResult try_to_reach(const ReachTest& test, const Key& key, std::chrono::milliseconds timeout = reach_timeout);

} // namespace rdma_nccl
