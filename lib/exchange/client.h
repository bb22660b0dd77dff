// SPDX-License-Identifier: Apache-2.0
// The node's side of the exchange. It blocks the calling thread, with timeouts, and validates what it receives like any
// other untrusted input.
#pragma once

#include "lib/base/result.h"
#include "lib/exchange/endpoint.h"
#include "lib/exchange/messages.h"
#include "lib/exchange/reachability.h"
#include "lib/net/key.h"
#include "lib/net/session.h"

#include <chrono>
#include <optional>
#include <string>
#include <variant>

namespace rdma_nccl {

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
    /// tries to reach the head. Fails with ETIMEDOUT if no answer comes before `deadline`, and with ECONNRESET if srun
    /// is gone.
    Result<Answer> agree(const NodeReport& report, std::optional<ReachListener> listener, Clock::time_point deadline);

    /// Sends an alarm while the step runs. Returns false if srun is gone, or does not take the message within a second.
    bool send_alarm(const std::string& text);
    /// Sends the evidence at the end of the step. Fails like send_alarm().
    bool send_evidence(const NodeEvidence& evidence);

    [[nodiscard]] int descriptor() const { return connection_.fd(); }

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
