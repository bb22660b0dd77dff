// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench_values.h"

#include <string>
#include <vector>

namespace rdma_nccl {

/// What a run's own evidence says against it: "did not use RDMA", "used RDMA all the same", ...; empty: it is what it
/// claims to be.
struct BenchDoubt {
    std::string text;
    bool bad = false; ///< false: not proven only
};
BenchDoubt doubt_of(const BenchRun& run);

/// A line of the table "with and without RDMA": busbw of the largest size that was measured both ways.
struct BenchComparison {
    std::string operation;
    unsigned ranks = 0;
    std::uint64_t bytes = 0;
    double rdma_gbps = 0, without_gbps = 0; ///< 1e9 bit/s; medians over the runs of each sort
    std::string doubt;                      ///< of the runs it comes from
};
/// By operation, then by ranks. With RDMA: the runs "A", "A'", ...; without such names, all that are meant to use it.
std::vector<BenchComparison> bench_comparisons(const BenchReport& report);

/// One page that needs nothing else.
std::string bench_html(const BenchReport& report);

} // namespace rdma_nccl
