// SPDX-License-Identifier: Apache-2.0
// A node's side of the exchange. It waits in the calling thread, within limits, and trusts what it hears no more than
// any other input.
#pragma once

#include "lib/exchange_endpoint.h"
#include "lib/exchange_message.h"
#include "lib/exchange_reach.h"
#include "lib/result.h"
#include "lib/unique_fd.h"

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace rdma_nccl {

struct ExchangeAnswer {
    Agreement agreement;
    HostsTable hosts;
};

class ExchangeClient {
public:
    using Clock = std::chrono::steady_clock;
    using Answer = std::variant<ExchangeAnswer, Disagreement>;

    /// To the first of srun's addresses that answers with the secret: each a quarter of a second after the one before,
    /// or as soon as that one has failed (as RFC 8305 does). A connection has to stand before `connected`, and the
    /// answer to come before `deadline`. The error names the addresses and why.
    static Result<ExchangeClient> connect(const ExchangeEndpoint& endpoint, Clock::time_point connected,
                                          Clock::time_point deadline);

    /// Reports, and does what srun asks for until it has its answer: serves `listener` (the head node), or tries to
    /// reach the head. `most`: bytes of the longest answer. Fails when srun is gone, or silent until `deadline`.
    Result<Answer> agree(const NodeReport& report, std::optional<ReachListener> listener, std::size_t most,
                         Clock::time_point deadline);

    /// At the end of the step: false when the connection does not take it within a second.
    bool send_evidence(const NodeEvidence& evidence);

    [[nodiscard]] int descriptor() const { return socket_.get(); }

    /// Forgets the socket without closing it: its number is of another process.
    void forget() { (void)socket_.release(); }

private:
    ExchangeClient(UniqueFd socket, const Secret& secret) : socket_(std::move(socket)), secret_(secret) {}
    /// Until srun has said something; serves the listener meanwhile.
    Result<void> wait(std::optional<ReachListener>& listener, Clock::time_point deadline);
    /// Does what a message asks for; the answer when it is one.
    Result<std::optional<Answer>> heed(const std::string& body, HostsTable& hosts, Clock::time_point deadline);
    bool send(const NodeMessage& message, Clock::time_point deadline);
    /// Bytes from srun, "" for none now, nullopt when the connection has ended.
    std::optional<std::string> receive(std::size_t most);

    UniqueFd socket_;
    Secret secret_;
};

} // namespace rdma_nccl
