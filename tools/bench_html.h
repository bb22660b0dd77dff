// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench_values.h"

#include <string>

namespace rdma_nccl {

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
