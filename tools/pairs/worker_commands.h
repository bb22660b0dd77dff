// SPDX-License-Identifier: Apache-2.0
// Carries out the orders of a pairing (tools/pairs/pair_run.h) on this node.
#pragma once

#include "lib/base/json.h"
#include "lib/sys/sysroot.h"
#include "tools/measure/rails.h"
#include "tools/pairs/order.h"
#include "tools/verbs/endpoint.h"
#include "tools/verbs/endpoint_thread.h"
#include "tools/verbs/port_counters.h"
#include "tools/verbs/rail.h"
#include "tools/verbs/tcp_bandwidth.h"

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What a member measures with.
struct PairsSite {
    PairNode node;
    std::vector<std::optional<unsigned>> gpus; ///< for each rail its nearest one
    std::vector<PortCounters> counters;        ///< for each rail
    std::optional<SysRoot> root;               ///< for reading the counters; absent: there are no rails
    /// A thread that does not stop this long after it was asked hangs in a driver; the process then ends.
    std::chrono::milliseconds longest_stop{30000};
};

class PairsWork {
public:
    explicit PairsWork(PairsSite site) : site_(std::move(site)) {}
    /// Releases the HCA. Ends the process if its driver does not release it in time.
    ~PairsWork();
    PairsWork(const PairsWork&) = delete;
    PairsWork& operator=(const PairsWork&) = delete;

    /// Returns the answer. Long work ends early when `stop` returns true. The answer to an invalid order, or one out of
    /// turn, is an error.
    Json carry_out(const Json& order, const StopAsked& stop);

private:
    Result<Json> carry_out_checked(const Json& order, const StopAsked& stop);
    Result<Json> prepare(const PairsOrder& order, const StopAsked& stop);
    Result<Json> connect(const PairsOrder& order, const StopAsked& stop);
    Result<Json> write(const PairsOrder& order, const StopAsked& stop);
    Result<Json> check(const PairsOrder& order, const StopAsked& stop);
    Result<Json> latency(const PairsOrder& order, const StopAsked& stop);
    Result<Json> bandwidth(const PairsOrder& order, const StopAsked& stop);
    Result<Json> listen(const PairsOrder& order, const StopAsked& stop);
    Result<Json> receive_tcp(const PairsOrder& order, const StopAsked& stop);
    Result<Json> send_tcp_bytes(const PairsOrder& order, const StopAsked& stop);
    Result<Json> finish(const PairsOrder& order, const StopAsked& stop);
    [[nodiscard]] const PairRail& rail() const { return site_.node.rails.at(rail_); }
    [[nodiscard]] PortReading read_counters() const { return site_.counters.at(rail_).read(*site_.root); }
    template<typename T>
    T wait_for(std::future<T> future, const StopAsked& stop) const;
    void close(const StopAsked& stop);
    void let_settle(const StopAsked& stop) const;
    /// Returns only the result, and notes in own_fault_ whose fault an error is.
    template<typename T>
    Result<T> noted(std::pair<Result<T>, VerbsCause> outcome);

    PairsSite site_;
    unsigned rail_ = 0;
    unsigned path_mtu_ = 0;
    std::list<VerbsThread> ends_;      ///< one; two for a loopback
    std::optional<PortReading> first_; ///< at the start of this pairing
    std::optional<TcpReceiver> receiver_;
    bool own_fault_ = false; ///< the last error is this node's, not the link's
};

} // namespace rdma_nccl
