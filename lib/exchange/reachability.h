// SPDX-License-Identifier: Apache-2.0
// The connection test: the head node listens where rank 0 will, and every other node connects to it. Both prove that
// they have the step's key, and the head proves that it has the address that the other node dialled.
#pragma once

#include "lib/base/result.h"
#include "lib/exchange/messages.h"
#include "lib/net/coordinator.h"

#include <chrono>
#include <cstdint>

namespace rdma_nccl {

/// The head node's side. It leaves no port in TIME_WAIT: its connections end with a reset, unless the peer closed
/// first.
class ReachListener {
public:
    /// Listens on `held`, a socket bound to `port`, so that no other program can take the port in the meantime; it is
    /// bound but not listening again when the test is over. Without a held socket (below 0), listens on `port`. Falls
    /// back to any port if that fails or `port` is 0. `key`: the step's.
    static Result<ReachListener> open(std::uint16_t port, const Key& key, int held = -1);

    ReachListener(ReachListener&&) = default;
    ~ReachListener();

    [[nodiscard]] std::uint16_t port() const { return coordinator_.port(); }
    /// Becomes readable when serve() has something to do.
    [[nodiscard]] int descriptor() const { return coordinator_.fd(); }
    /// The latest time to call serve(); absent: call it only when descriptor() is readable.
    [[nodiscard]] std::optional<Coordinator::Clock::time_point> deadline() const { return coordinator_.deadline(); }
    /// Answers the nodes that have connected. Never blocks.
    void serve() { (void)coordinator_.work(); }

private:
    explicit ReachListener(Coordinator coordinator) : coordinator_(std::move(coordinator)) {}
    static Result<UniqueFd> listen(std::uint16_t port, int held);

    Coordinator coordinator_;
};

/// The timeout of a test. A lost SYN is sent again after one second (RFC 6298).
inline constexpr std::chrono::milliseconds reach_timeout(2500);

/// The other nodes' side: tries all addresses at once. The result of an address is ETIMEDOUT if it did not answer in
/// time, EPROTO if another program answers there, and EADDRNOTAVAIL if it is not tried because this node has it too.
ReachResult try_to_reach(const ReachTest& test, const Key& key, std::chrono::milliseconds timeout = reach_timeout);

} // namespace rdma_nccl
