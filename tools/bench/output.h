// SPDX-License-Identifier: Apache-2.0
// The result of the runs: for each number of ranks the figures with and without RDMA, whether the counters confirm
// them, and its formats.
#pragma once

#include "lib/base/json.h"
#include "tools/bench/rank/order.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Ordered from best to worst.
enum class BenchState { Good, CannotTell, Warning, Critical };

struct BenchBandwidth {
    double busbw = 0, algbw = 0; ///< 1e9 bit/s

    friend bool operator==(const BenchBandwidth&, const BenchBandwidth&) = default;
};

/// One operation with one number of ranks, at the largest size measured.
struct BenchLine {
    std::string operation;
    unsigned ranks = 0, nodes = 0;
    std::uint64_t bytes = 0;
    std::optional<BenchBandwidth> with_rdma; ///< mean of A and A'; of one, if only that one used RDMA or was measured
    std::optional<BenchBandwidth> without_rdma;  ///< B
    std::optional<BenchBandwidth> no_gpu_direct; ///< C
    std::optional<double> ratio; ///< busbw with RDMA over without; absent unless the counters prove both
    BenchState state = BenchState::Good;
    std::vector<std::string> notes; ///< the verdict in words, the worst first

    /// Returns the notes on one line.
    [[nodiscard]] std::string verdict() const;
};

struct BenchSummary {
    std::vector<BenchLine> lines;
    BenchState state = BenchState::Good; ///< of the worst line; CannotTell if there is no line
    int exit_code = 0;                   ///< 0 good, 1 warning, 2 critical, 3 cannot tell
};

/// Calls a run's figure "with RDMA" only if that run's own counters confirm it.
BenchSummary summarize(const BenchReport& report);

/// Returns nccl-tests' columns for each run, then one summary table.
std::string bench_text(const BenchReport& report, const BenchSummary& summary);

/// Returns the report as JSON, with "schema": 1.
Json bench_json(const BenchReport& report, const BenchSummary& summary);
/// Returns the JSON Schema of bench_json().
Json bench_schema();

/// Returns a line for each size of each run, after a header line (RFC 4180).
std::string bench_csv(const BenchReport& report);

/// Returns one self-contained page. Its table is the same as on the terminal (bench_text).
std::string bench_html(const BenchReport& report);

} // namespace rdma_nccl
