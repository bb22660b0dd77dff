// SPDX-License-Identifier: Apache-2.0
// For each number of ranks the figures with and without RDMA, whether the counters confirm them, and all formats.
#pragma once

#include "lib/base/json.h"
#include "tools/bench/rank/order.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::bench {

/// Ordered from best to worst.
enum class State { Good, CannotTell, Warning, Critical };

struct Bandwidth {
    double busbw = 0, algbw = 0; ///< 1e9 bit/s
};

/// One operation with one number of ranks, at the largest size measured.
struct SummaryLine {
    std::string operation;
    unsigned ranks = 0, nodes = 0;
    std::uint64_t bytes = 0;
    std::optional<Bandwidth> with_rdma;     ///< mean of A and A'; of one, if only that one used RDMA or was measured
    std::optional<Bandwidth> without_rdma;  ///< B
    std::optional<Bandwidth> no_gpu_direct; ///< C
    std::optional<double> ratio;            ///< busbw with RDMA over without; absent unless the counters prove both
    State state = State::Good;
    std::vector<std::string> notes; ///< the verdict in words, the worst first
};

struct Summary {
    std::vector<SummaryLine> lines;
    State state = State::Good; ///< of the worst line; CannotTell if there is no line
    int exit_code = 0;         ///< 0 good, 1 warning, 2 critical, 3 cannot tell
};

/// Calls a run's figure "with RDMA" only if that run's own counters confirm it.
Summary summarize(const Report& report);

/// Returns nccl-tests' columns for each run, then one summary table.
std::string write_text(const Report& report, const Summary& summary);

/// Returns the report as JSON, with "schema": 1.
Json write_json(const Report& report, const Summary& summary);
/// Returns the JSON Schema of write_json().
Json json_schema();

/// Returns a line for each size of each run, after a header line (RFC 4180).
std::string write_csv(const Report& report);

/// What a run's own counters say against it, "used RDMA all the same"; empty if it is what it claims to be.
struct Doubt {
    std::string_view text{};
    bool bad = false; ///< false: only not proven
};
Doubt run_doubt(const Run& run);

/// Returns one self-contained page. Its table is the same as on the terminal (write_text).
std::string write_html(const Report& report);

} // namespace rdma_nccl::bench
