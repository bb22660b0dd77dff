// SPDX-License-Identifier: Apache-2.0
// srun's side of the exchange: a single thread with an event loop and all signals blocked.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/exchange/protocol.h"
#include "lib/net/key.h"
#include "lib/settings/settings.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace rdma_nccl {

class ExchangeServer {
public:
    /// Binds a port, from `range` if given (SrunPortRange), but does not listen yet. `seconds`: how long nodes wait for
    /// each other. `key`: the step's.
    static Result<ExchangeServer> open(const std::optional<PortRange>& range, unsigned seconds, const Key& key);

    ExchangeServer(ExchangeServer&&) = default;
    ~ExchangeServer(); ///< finish() with no wait

    [[nodiscard]] const ExchangeEndpoint& endpoint() const { return endpoint_; }

    /// Listens, and starts the thread. This first calls `know`, which asks Slurm about the step: that takes time, but
    /// the nodes need that time anyway before they report. Then it calls `report` for each line to print, and
    /// `end_step` when strict must end the running step. A second thread calls `is_cancelled` twice a second while
    /// nodes are missing. When start() fails nothing listens, so no node waits.
    Result<void> start(
        std::function<ExchangeStep()> know, ExchangeRounds::Report report, ExchangeRounds::EndStep end_step = [] {},
        std::function<bool()> is_cancelled = [] { return false; });

    /// Ends the thread as soon as all nodes have sent their evidence or are gone, and after `timeout` at the latest.
    /// Returns nullopt if there was no exchange.
    std::optional<StepEvidence> finish(std::chrono::milliseconds timeout);

private:
    ExchangeServer(UniqueFd socket, UniqueFd stop, ExchangeEndpoint endpoint, const Key& key)
        : socket_(std::move(socket)), stop_(std::move(stop)), endpoint_(std::move(endpoint)), key_(key) {}

    UniqueFd socket_; ///< moves to the thread in start()
    UniqueFd stop_;   ///< eventfd; holds the timeout in milliseconds plus one
    ExchangeEndpoint endpoint_;
    Key key_;
    std::shared_ptr<StepEvidence> evidence_; ///< belongs to the thread until it has ended
    std::thread thread_;
};

} // namespace rdma_nccl
