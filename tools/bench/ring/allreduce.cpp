// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/ring/ring.h"

namespace rdma_nccl {

RingPart ring_part(std::size_t count, unsigned ranks, unsigned index) {
    const std::size_t first = count / ranks * index + count % ranks * index / ranks;
    const std::size_t next = count / ranks * (index + 1) + count % ranks * (index + 1) / ranks;
    return {first, next - first};
}

Result<void> ring_all_reduce(const RingExchange& exchange, unsigned rank, unsigned ranks, std::span<const float> send,
                             std::span<float> receive) {
    const auto part = [&](unsigned back) { return ring_part(send.size(), ranks, (rank + 2 * ranks - back) % ranks); };
    for (unsigned step = 0; step + 1 < ranks; ++step) {
        const auto out = part(step);
        const auto in = part(step + 1);
        RingStep now;
        now.out = (step == 0 ? send : std::span<const float>(receive)).subspan(out.first, out.count);
        now.in_count = in.count;
        now.arrived = [&](std::span<const float> values, std::size_t first) {
            const float* const own = &send[in.first + first];
            float* const sum = &receive[in.first + first];
            for (std::size_t i = 0; i < values.size(); ++i) {
                sum[i] = values[i] + own[i];
            }
        };
        if (auto done = exchange(now); !done) {
            return done;
        }
    }
    for (unsigned step = 0; step + 1 < ranks; ++step) {
        const auto out = part(step + ranks - 1); // which is part rank + 1 - step
        const auto in = part(step);
        RingStep now;
        now.out = std::span<const float>(receive).subspan(out.first, out.count);
        now.in_count = in.count;
        now.places = {.out = out.first, .in = in.first};
        if (auto done = exchange(now); !done) {
            return done;
        }
    }
    return {};
}

} // namespace rdma_nccl
