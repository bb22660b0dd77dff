// SPDX-License-Identifier: Apache-2.0
// srun's side of the exchange: one thread with one event loop (epoll), in which all signals are blocked. What comes
// over the network costs little and ends nothing: a connection is closed without a word unless the secret's question is
// its first sixteen bytes, within five seconds; messages have limits; of those who have not shown it, the oldest make
// room.
#pragma once

#include "lib/exchange_endpoint.h"
#include "lib/exchange_rounds.h"
#include "lib/result.h"
#include "lib/settings.h"
#include "lib/unique_fd.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace rdma_nccl {

class ExchangeServer {
public:
    /// Takes a port, of `range` where one is given (SrunPortRange), but does not listen yet. `seconds`: how long nodes
    /// shall wait for each other.
    static Result<ExchangeServer> open(const std::optional<PortRange>& range, unsigned seconds);

    ExchangeServer(ExchangeServer&&) = default;
    ExchangeServer& operator=(ExchangeServer&&) = delete;
    ExchangeServer(const ExchangeServer&) = delete;
    ExchangeServer& operator=(const ExchangeServer&) = delete;
    ~ExchangeServer(); ///< finish() without patience

    [[nodiscard]] const ExchangeEndpoint& endpoint() const { return endpoint_; }

    /// Listens, and starts the thread. `know` is called first in it: to ask Slurm takes time, which the nodes need
    /// anyway until they report. Then `tell`, for each line to say.
    Result<void> start(std::function<ExchangeStep()> know, ExchangeRounds::Tell tell);

    /// Ends the thread as soon as all nodes have sent their evidence or are gone, at the latest after `patience`.
    /// Absent when there was no exchange.
    std::optional<StepEvidence> finish(std::chrono::milliseconds patience);

private:
    ExchangeServer(UniqueFd socket, UniqueFd stop, ExchangeEndpoint endpoint)
        : socket_(std::move(socket)), stop_(std::move(stop)), endpoint_(std::move(endpoint)) {}

    UniqueFd socket_;
    UniqueFd stop_; ///< eventfd: the milliseconds of patience, and one
    ExchangeEndpoint endpoint_;
    std::shared_ptr<StepEvidence> evidence_; ///< the thread's, until it has ended
    std::thread thread_;
};

} // namespace rdma_nccl
