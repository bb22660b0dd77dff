// SPDX-License-Identifier: Apache-2.0
// A rank of `rdma-nccl bench --host`: all-reduce of floats around a ring of nodes, in host memory. A link connects it
// to its two neighbours, and owns the buffers that it sends from and receives into.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "tools/verbs/rail.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace rdma_nccl::bench {

/// Runs the rank, which talks to its worker as a rank on a GPU does (tools/bench/rank/order.h). Returns 0, or 1.
int run_ring_rank();

/// One step of a ring: each rank sends to the next rank and receives from the previous one at the same time.
struct RingStep {
    std::span<const float> out;
    std::size_t in_count = 0; ///< number of values to receive
    /// Indices in receive buffers: in the next rank's, where `out` goes; in this rank's, where received values go.
    struct Places {
        std::size_t out = 0, in = 0;
    };
    std::optional<Places> places; ///< absent: received values are to be added, and pass through memory of the link
    /// Called with received values that are to be added, part by part and in order. `first`: index within the step.
    std::function<void(std::span<const float> values, std::size_t first)> arrived;
};

class RingLink {
public:
    RingLink() = default;
    RingLink(const RingLink&) = delete;
    RingLink& operator=(const RingLink&) = delete;
    virtual ~RingLink() = default;

    /// Returns what the neighbours must know to connect.
    [[nodiscard]] virtual Json offer() const = 0;
    virtual Result<void> connect(const Json& next, const Json& previous) = 0;

    [[nodiscard]] virtual std::span<float> send_buffer() = 0;
    [[nodiscard]] virtual std::span<float> receive_buffer() = 0;

    /// Sends and receives. `step.out` must lie in one of the two buffers. Fails when nothing moves for too long.
    virtual Result<void> exchange(const RingStep& step) = 0;
};

/// `most_values`: the size of each buffer. `most_part`: the most values that one step transfers.
struct RingSize {
    std::size_t most_values = 0, most_part = 0;
};

// --- All-reduce around a ring. After ranks - 1 steps (reduce-scatter) every rank has the sum of one part, and after
// ranks - 1 more (all-gather) every rank has all parts. So each rank sends 2 (n - 1) / n of the size. ---

using RingExchange = std::function<Result<void>(const RingStep&)>;

/// A range of values.
struct RingPart {
    std::size_t first = 0, count = 0;
};
RingPart ring_part(std::size_t count, unsigned ranks, unsigned index);

/// Adds up `send` of all ranks; `receive`, which must be as long as `send`, holds the sums afterwards.
Result<void> ring_all_reduce(const RingExchange& exchange, unsigned rank, unsigned ranks, std::span<const float> send,
                             std::span<float> receive);

/// Opens a ring link over RC queue pairs with RDMA WRITE.
Result<std::unique_ptr<RingLink>> open_verbs_ring(const PairRail& rail, const RingSize& size);

/// Opens a ring link with one TCP connection to each neighbour, from the local address `address`.
Result<std::unique_ptr<RingLink>> open_tcp_ring(const IpAddress& address, const RingSize& size);

} // namespace rdma_nccl::bench
