// SPDX-License-Identifier: Apache-2.0
// What the runs come to: for each number of ranks the figure with RDMA and without, and whether it is one.
#pragma once

#include "tools/bench_values.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The later the worse.
enum class BenchState { Good, CannotTell, Warning, Critical };

struct BenchBandwidth {
    double busbw = 0, algbw = 0; ///< 1e9 bit/s

    friend bool operator==(const BenchBandwidth&, const BenchBandwidth&) = default;
};

/// An operation over so many ranks, at the greatest size that was measured.
struct BenchLine {
    std::string operation;
    unsigned ranks = 0, nodes = 0;
    std::uint64_t bytes = 0;
    std::optional<BenchBandwidth> with_rdma;     ///< mean of those of A and A' that used RDMA; of both, if none did
    std::optional<BenchBandwidth> without_rdma;  ///< B
    std::optional<BenchBandwidth> no_gpu_direct; ///< C
    std::optional<double> ratio; ///< busbw with RDMA over without; absent unless the counters prove both
    BenchState state = BenchState::Good;
    std::vector<std::string> notes; ///< the verdict, in words; what is worst first

    /// On one line.
    [[nodiscard]] std::string verdict() const;
};

struct BenchSummary {
    std::vector<BenchLine> lines;
    BenchState state = BenchState::Good; ///< of the worst line; CannotTell without any
    int exit_code = 0;                   ///< 0 good, 1 warning, 2 critical, 3 cannot tell
};

/// A figure of a run is only "with RDMA" when the run's own counters say so.
BenchSummary summarize(const BenchReport& report);

} // namespace rdma_nccl
