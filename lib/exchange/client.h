// SPDX-License-Identifier: Apache-2.0
// The node's side of the exchange. It blocks the calling thread, with timeouts, and validates what it receives like any
// other untrusted input.
#pragma once

#include "lib/base/result.h"
#include "lib/exchange/messages.h"
#include "lib/net/coordinator.h"
#include "lib/net/key.h"
#include "lib/net/session.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace rdma_nccl {

// The connection test: the head node listens where rank 0 will, and every other node connects to it. Both prove that
// they have the step's key, and the head proves that it has the address that the other node dialled.

/// The head node's side. Leaves no port in TIME_WAIT: connections end with a reset, unless the peer closed first.
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

    Coordinator coordinator_;
};

/// The other nodes' side: tries all addresses at once. The result of an address is ETIMEDOUT if it did not answer in
/// time, EPROTO if another program answers there, and EADDRNOTAVAIL if it is not tried because this node has it too.
ReachResult try_to_reach(const ReachTest& test, const Key& key, std::chrono::milliseconds timeout = reach_timeout);

// The conversation with srun.

struct ExchangeAnswer {
    Agreement agreement;
    HostsTable hosts;
};

class ExchangeClient {
public:
    using Clock = std::chrono::steady_clock;
    using Answer = std::variant<ExchangeAnswer, Disagreement>;

    /// Connects to the first of srun's addresses that proves to have the step's key. Tries each a quarter of a second
    /// after the one before, or as soon as that one has failed (as in RFC 8305). The connection must be established
    /// before `connected`, and the proof must arrive before `deadline`. `most`: the longest message that srun may send,
    /// in bytes. The error lists each address and the reason.
    static Result<ExchangeClient> connect(const ExchangeEndpoint& endpoint, const Key& key, std::size_t most,
                                          Clock::time_point connected, Clock::time_point deadline);

    /// Sends the report, then follows srun's requests until the answer comes: serves `listener` (the head node), or
    /// tries to reach the head. Fails with ETIMEDOUT if no answer comes before `deadline`, ECONNRESET if srun is gone.
    Result<Answer> agree(const NodeReport& report, std::optional<ReachListener> listener, Clock::time_point deadline);

    /// Sends an alarm while the step runs. Returns false if srun is gone, or does not take the message within a second.
    bool send_alarm(const std::string& text);
    /// Sends the evidence at the end of the step. Fails like send_alarm().
    bool send_evidence(const NodeEvidence& evidence);

    [[nodiscard]] int descriptor() const { return connection_.fd(); }

    /// Ends the connection also for processes that have a copy of the socket.
    void hang_up() const;

    /// Drops the socket without closing it: its descriptor number now belongs to another process.
    void forget() { connection_.forget(); }

private:
    ExchangeClient(Connection connection, const Key& key) : connection_(std::move(connection)), key_(key) {}
    /// Waits until srun has sent something; serves the listener meanwhile.
    Result<void> wait(std::optional<ReachListener>& listener, Clock::time_point deadline);
    /// Does what a message asks for. Returns the answer if the message is one.
    Result<std::optional<Answer>> obey(const std::string& body, HostsTable& hosts, Clock::time_point deadline);
    bool send(const NodeMessage& message, Clock::time_point deadline);

    Connection connection_;
    Key key_;
};

} // namespace rdma_nccl
