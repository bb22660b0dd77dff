// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/json.h"
#include "tools/bench/rank/order.h"
#include "tools/bench/summary.h"

#include <string>

namespace rdma_nccl {

/// Returns nccl-tests' columns for each run, then one summary table.
std::string bench_text(const BenchReport& report, const BenchSummary& summary);

/// Returns the report as JSON, with "schema": 1.
Json bench_json(const BenchReport& report, const BenchSummary& summary);
/// Returns the JSON Schema of bench_json().
Json bench_schema();

/// Returns a line for each size of each run, after a header line (RFC 4180).
std::string bench_csv(const BenchReport& report);

/// What a run's own counters say against it: "did not use RDMA", "used RDMA all the same", ... Empty if the run is what
/// it claims to be.
struct BenchDoubt {
    std::string text;
    bool bad = false; ///< false: only not proven
};
BenchDoubt doubt_of(const BenchRun& run);

/// Returns one self-contained page. Its table is the same as on the terminal (bench_summary.h).
std::string bench_html(const BenchReport& report);

} // namespace rdma_nccl
