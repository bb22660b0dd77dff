// SPDX-License-Identifier: Apache-2.0
// The real connection test of design section 5: the head node listens where rank 0 will, and every other node connects,
// says the secret's question and hears its answer.
#pragma once

#include "lib/exchange_endpoint.h"
#include "lib/exchange_values.h"
#include "lib/result.h"
#include "lib/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace rdma_nccl {

/// The head node's side. Leaves no port in TIME_WAIT: its connections end with a reset, unless the peer ended first.
class ReachListener {
public:
    /// On `held`, a socket that holds `port` and is back in its place afterwards: so nobody else can have the port
    /// meanwhile. Without one (below 0) on `port` itself; on any port when that one cannot be had or `port` is 0.
    static Result<ReachListener> open(std::uint16_t port, const Secret& secret, int held = -1);

    ReachListener(ReachListener&&) = default;
    ReachListener& operator=(ReachListener&&) = delete;
    ReachListener(const ReachListener&) = delete;
    ReachListener& operator=(const ReachListener&) = delete;
    ~ReachListener();

    [[nodiscard]] std::uint16_t port() const;
    /// Readable when serve() has something to do.
    [[nodiscard]] int descriptor() const { return events_.get(); }
    /// Answers who has come; never waits.
    void serve();

private:
    struct Visitor {
        UniqueFd socket;
        std::string heard;
        std::chrono::steady_clock::time_point since;
    };

    ReachListener(UniqueFd listener, UniqueFd events, const Secret& secret)
        : listener_(std::move(listener)), events_(std::move(events)), secret_(secret) {}
    static Result<UniqueFd> listen(std::uint16_t port, int held);
    void take_visitors();
    bool make_room();
    void hear(int socket);
    void dismiss(int socket);

    UniqueFd listener_;
    UniqueFd events_; ///< epoll
    Secret secret_;
    std::map<int, Visitor> visitors_;
};

/// How long a test may take: a lost SYN is sent again after one second (RFC 6298).
inline constexpr std::chrono::milliseconds reach_patience(2500);

/// Another node's side: tries all addresses at once. ETIMEDOUT for what did not answer in `patience`, EPROTO for
/// something else that answers there.
ReachResult try_to_reach(const ReachTest& test, const Secret& secret,
                         std::chrono::milliseconds patience = reach_patience);

} // namespace rdma_nccl
