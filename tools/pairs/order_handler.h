// SPDX-License-Identifier: Apache-2.0
// Carries out the orders of a pairing (tools/pairs/pair_run.h) on this node.
#pragma once

#include "lib/base/json.h"
#include "lib/sys/sysroot.h"
#include "tools/measure/rails.h"
#include "tools/pairs/order.h"
#include "tools/verbs/endpoint.h"
#include "tools/verbs/port_counters.h"
#include "tools/verbs/rail.h"
#include "tools/verbs/tcp_bandwidth.h"

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::pairs {

/// What a worker measures with.
struct HandlerContext {
    measure::Node node;
    std::vector<std::optional<unsigned>> gpus; ///< for each rail its nearest one
    std::vector<PortCounters> counters;        ///< for each rail
    std::optional<SysRoot> root;               ///< for reading the counters; absent: there are no rails
    /// A thread that does not stop this long after it was asked hangs in a driver; the process then ends.
    std::chrono::milliseconds longest_stop{30000};
};

class OrderHandler {
public:
    explicit OrderHandler(HandlerContext context) : context_(std::move(context)) {}
    /// Releases the HCA. Ends the process if its driver does not release it in time.
    ~OrderHandler();
    OrderHandler(const OrderHandler&) = delete;
    OrderHandler& operator=(const OrderHandler&) = delete;

    /// Returns the answer; an error if the order is invalid or out of turn. Long work ends when `stop` returns true.
    Json carry_out(const Json& order, const StopAsked& stop);

private:
    using End = std::unique_ptr<VerbsEndpoint>;

    Result<Json> carry_out_checked(const Json& order);
    Result<Json> prepare(const Order& order);
    Result<Json> connect(const Order& order);
    Result<Json> write(const Order& order);
    Result<Json> check(const Order& order);
    Result<Json> latency(const Order& order);
    Result<Json> bandwidth(const Order& order);
    Result<Json> listen(const Order& order);
    Result<Json> receive_tcp(const Order& order);
    Result<Json> send_tcp_bytes(const Order& order);
    Result<Json> finish(const Order& order);
    [[nodiscard]] const PairRail& rail() const { return context_.node.rails.at(rail_); }
    /// Returns "n01 mlx5_1:1".
    [[nodiscard]] std::string port_name() const;
    [[nodiscard]] PortReading read_counters() const { return context_.counters.at(rail_).read(*context_.root); }
    void wait_for_counters() const;
    template<typename T>
    T wait_for(std::future<T> future) const;
    template<typename T>
    Result<T> wait_for_outcome(std::future<std::pair<Result<T>, VerbsCause>> future);
    void close();

    HandlerContext context_;
    StopAsked stop_; ///< of the current order
    unsigned rail_ = 0;
    unsigned path_mtu_ = 0;
    std::list<VerbsThread> ends_;      ///< one; two for a loopback
    std::optional<PortReading> first_; ///< at the start of this pairing
    std::optional<TcpReceiver> receiver_;
    bool own_fault_ = false; ///< the last error is this node's, not the link's
};

} // namespace rdma_nccl::pairs
