// SPDX-License-Identifier: Apache-2.0
// A node's side of the exchange. It waits in the calling thread, within limits, and trusts what it hears no more than
// any other input.
#pragma once

#include "lib/exchange_endpoint.h"
#include "lib/exchange_message.h"
#include "lib/exchange_reach.h"
#include "lib/net/connection.h"
#include "lib/net/key.h"
#include "lib/result.h"

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

    /// To the first of srun's addresses that proves to have the step's key: each a quarter of a second after the one
    /// before, or as soon as that one has failed (as RFC 8305 does). A connection has to stand before `connected`, and
    /// the proof to come before `deadline`. `most`: bytes of srun's longest message. The error names the addresses and
    /// why.
    static Result<ExchangeClient> connect(const ExchangeEndpoint& endpoint, const Key& key, std::size_t most,
                                          Clock::time_point connected, Clock::time_point deadline);

    /// Reports, and does what srun asks for until it has its answer: serves `listener` (the head node), or tries to
    /// reach the head. Fails when srun is silent until `deadline` (ETIMEDOUT), or gone (ECONNRESET).
    Result<Answer> agree(const NodeReport& report, std::optional<ReachListener> listener, Clock::time_point deadline);

    /// While the step runs; false when srun is gone, or does not take it within a second.
    bool send_alarm(const std::string& text);
    /// At the end of the step: likewise.
    bool send_evidence(const NodeEvidence& evidence);

    [[nodiscard]] int descriptor() const { return connection_.fd(); }

    /// Forgets the socket without closing it: its number is of another process.
    void forget() { connection_.forget(); }

private:
    ExchangeClient(Connection connection, const Key& key) : connection_(std::move(connection)), key_(key) {}
    /// Until srun has said something; serves the listener meanwhile.
    Result<void> wait(std::optional<ReachListener>& listener, Clock::time_point deadline);
    /// Does what a message asks for; the answer when it is one.
    Result<std::optional<Answer>> obey(const std::string& body, HostsTable& hosts, Clock::time_point deadline);
    bool send(const NodeMessage& message, Clock::time_point deadline);

    Connection connection_;
    Key key_;
};

} // namespace rdma_nccl
