// SPDX-License-Identifier: Apache-2.0
// A rank's two neighbours in a ring, and the memory that it sends from and receives in.
#pragma once

#include "lib/ip.h"
#include "lib/json.h"
#include "lib/result.h"
#include "tools/pairs_values.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace rdma_nccl {

/// Each rank sends to the next and receives from the previous one, at the same time.
struct RingStep {
    std::span<const float> out;
    std::size_t in_count = 0; ///< values that come
    /// Where `out` belongs in the next rank's buffer, and what comes in the own one; absent: what comes is to be added,
    /// and passes through memory of the link's.
    std::optional<std::size_t> out_place, in_place;
    /// Of what is to be added: parts, in order; `first`: number of the first value of this one.
    std::function<void(std::span<const float> values, std::size_t first)> arrived;
};

class RingLink {
public:
    RingLink() = default;
    RingLink(const RingLink&) = delete;
    RingLink& operator=(const RingLink&) = delete;
    virtual ~RingLink() = default;

    /// What the neighbours have to know.
    [[nodiscard]] virtual Json offer() const = 0;
    virtual Result<void> connect(const Json& next, const Json& previous) = 0;

    [[nodiscard]] virtual std::span<float> send_buffer() = 0;
    [[nodiscard]] virtual std::span<float> receive_buffer() = 0;

    /// `out` lies in one of the buffers. Fails in words when nothing moves any more.
    virtual Result<void> exchange(const RingStep& step) = 0;
};

/// `most_values`: of a buffer. `most_part`: of a step.
struct RingSize {
    std::size_t most_values = 0, most_part = 0;
};

// --- All-reduce around a ring: every rank has a part of the sum after ranks - 1 steps (reduce-scatter), and all parts
// after as many again (all-gather). So 2 (n - 1) / n of the size leave each rank. ---

using RingExchange = std::function<Result<void>(const RingStep&)>;

/// Values of part `index` of `count`: parts are as equal as they can be.
struct RingPart {
    std::size_t first = 0, count = 0;

    friend bool operator==(const RingPart&, const RingPart&) = default;
};
RingPart ring_part(std::size_t count, unsigned ranks, unsigned index);

/// The sums of all ranks' `send` are in `receive` then, which is as long.
Result<void> ring_all_reduce(const RingExchange& exchange, unsigned rank, unsigned ranks, std::span<const float> send,
                             std::span<float> receive);

/// RC queue pairs, RDMA WRITE.
Result<std::unique_ptr<RingLink>> open_verbs_ring(const PairRail& rail, const RingSize& size);

/// One TCP connection to each neighbour, from this address of the host.
Result<std::unique_ptr<RingLink>> open_tcp_ring(const IpAddress& address, const RingSize& size);

} // namespace rdma_nccl
