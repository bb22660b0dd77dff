// SPDX-License-Identifier: Apache-2.0
// All-reduce around a ring: every rank has a part of the sum after ranks - 1 steps (reduce-scatter), and all parts
// after as many again (all-gather). So 2 (n - 1) / n of the size leave each rank.
#pragma once

#include "tools/ring_link.h"

#include <cstddef>
#include <functional>

namespace rdma_nccl {

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

} // namespace rdma_nccl
