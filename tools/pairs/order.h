// SPDX-License-Identifier: Apache-2.0
// The orders of the coordinator of `rdma-nccl pairs`, and the workers' answers, as values within their limits.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "lib/net/message.h"
#include "tools/pairs/model.h"
#include "tools/verbs/endpoint.h"
#include "tools/verbs/rail.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

void fields(auto& f, Is<PairLatency> auto& latency) {
    f("min_us", latency.min_us);
    f("median_us", latency.median_us);
    f("p99_us", latency.p99_us);
    f("p999_us", latency.p999_us);
    f("max_us", latency.max_us);
    f("round_trips", latency.round_trips);
}

namespace pairs {

/// Each kind of order uses only some of these values.
struct Order {
    std::string what;
    unsigned rail = 0, ends = 1;
    Measurement measure;
    unsigned mtu = 0;
    std::vector<VerbsAddress> peers;
    std::uint64_t seed = 0;
    bool first = false;
    IpAddress address;
    std::uint16_t port = 0;
};

/// Fails on anything that no coordinator of this version sends.
Result<Order> parse_order(const Json& json);

/// Each step uses only some of these values.
struct Answer {
    std::optional<std::string> error;
    bool own = false; ///< the error is this node's fault
    std::vector<VerbsAddress> addresses;
    std::optional<bool> correct;
    std::optional<PairLatency> latency;
    std::optional<double> gbps;
    std::optional<std::uint64_t> bytes, counted;
    std::optional<std::uint16_t> port;
    std::vector<std::string> notes;
};

/// Fails on anything that no worker of this version sends.
Result<Answer> parse_answer(const Json& json);

} // namespace pairs

} // namespace rdma_nccl
