// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/json.h"
#include "tools/bench_summary.h"
#include "tools/bench_values.h"

#include <string>

namespace rdma_nccl {

/// nccl-tests' columns of each run, then one table of all.
std::string bench_text(const BenchReport& report, const BenchSummary& summary);

/// "schema": 1.
Json bench_json(const BenchReport& report, const BenchSummary& summary);
/// JSON Schema of it.
Json bench_schema();

/// A line for each size of each run, below a line of names (RFC 4180).
std::string bench_csv(const BenchReport& report);

/// What a run's own evidence says against it: "did not use RDMA", "used RDMA all the same", ...; empty: it is what it
/// claims to be.
struct BenchDoubt {
    std::string text;
    bool bad = false; ///< false: not proven only
};
BenchDoubt doubt_of(const BenchRun& run);

/// One page that needs nothing else. Its table is that of the terminal (bench_summary.h).
std::string bench_html(const BenchReport& report);

} // namespace rdma_nccl
