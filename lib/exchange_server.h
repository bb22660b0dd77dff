// SPDX-License-Identifier: Apache-2.0
// srun's side of the exchange: one thread with one event loop, in which all signals are blocked.
#pragma once

#include "lib/exchange_endpoint.h"
#include "lib/exchange_rounds.h"
#include "lib/net/key.h"
#include "lib/result.h"
#include "lib/settings.h"
#include "lib/unique_fd.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace rdma_nccl {

class ExchangeServer {
public:
    /// Takes a port, of `range` where one is given (SrunPortRange), but does not listen yet. `seconds`: how long nodes
    /// shall wait for each other. `key`: the step's.
    static Result<ExchangeServer> open(const std::optional<PortRange>& range, unsigned seconds, const Key& key);

    ExchangeServer(ExchangeServer&&) = default;
    ~ExchangeServer(); ///< finish() without waiting

    [[nodiscard]] const ExchangeEndpoint& endpoint() const { return endpoint_; }

    /// Listens, and starts the thread. `know` is called first in it: to ask Slurm takes time, which the nodes need
    /// anyway until they report. Then `tell`, for each line to say; `end_step`, where strict wants that while the step
    /// runs; and, in a thread of its own, twice a second while nodes are missing, `is_cancelled`. Where it fails nobody
    /// listens, so that no node waits.
    Result<void> start(
        std::function<ExchangeStep()> know, ExchangeRounds::Tell tell, ExchangeRounds::EndStep end_step = [] {},
        std::function<bool()> is_cancelled = [] { return false; });

    /// Ends the thread as soon as all nodes have sent their evidence or are gone, at the latest after `timeout`.
    /// Absent when there was no exchange.
    std::optional<StepEvidence> finish(std::chrono::milliseconds timeout);

private:
    ExchangeServer(UniqueFd socket, UniqueFd stop, ExchangeEndpoint endpoint, const Key& key)
        : socket_(std::move(socket)), stop_(std::move(stop)), endpoint_(std::move(endpoint)), key_(key) {}

    UniqueFd socket_; ///< the thread's, once it runs
    UniqueFd stop_;   ///< eventfd: the milliseconds of the timeout, and one
    ExchangeEndpoint endpoint_;
    Key key_;
    std::shared_ptr<StepEvidence> evidence_; ///< the thread's, until it has ended
    std::thread thread_;
};

} // namespace rdma_nccl
