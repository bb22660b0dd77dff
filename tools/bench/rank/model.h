// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl bench` measures, as plain values: collectives over the same ranks with and without RDMA.
#pragma once

#include "lib/evidence/verdict.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// One size of one operation, with nccl-tests' columns (either out of place or in place).
struct BenchTimes {
    double time_us = 0; ///< median of the repeats
    double min_us = 0, max_us = 0;
    double algbw = 0, busbw = 0;        ///< 1e9 bytes/s, of the median; factors as in nccl-tests' PERFORMANCE.md
    std::optional<std::uint64_t> wrong; ///< number of wrong values; absent: not checked

    friend bool operator==(const BenchTimes&, const BenchTimes&) = default;
};

struct BenchRow {
    std::string operation;   ///< "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"
    std::uint64_t bytes = 0; ///< nccl-tests' size
    std::uint64_t count = 0; ///< elements
    std::string type;        ///< "float", "half", "bfloat16", ...
    std::string redop;       ///< "sum", "none"
    int root = -1;
    BenchTimes out_of_place;
    std::optional<BenchTimes> in_place;

    friend bool operator==(const BenchRow&, const BenchRow&) = default;
};

/// The runs with one number of ranks: as it is; without RDMA; and as it is again, to show drift. If the ranks need no
/// network, only the first.
enum class BenchKind { AsItIs, NoRdma, NoGpuDirect, AsItIsAgain };

/// One start of all ranks with one set of variables.
struct BenchRun {
    std::string name; ///< "A", "B", "C", "A'"
    std::string what; ///< "as it is", "without RDMA", "without GPUDirect", "host memory, verbs", ...
    BenchKind kind = BenchKind::AsItIs;
    bool rdma_meant = true;                                     ///< RDMA should be used
    unsigned ranks = 0;                                         ///< GPUs; with --host, nodes x rings
    std::vector<std::pair<std::string, std::string>> variables; ///< in addition to those of all runs
    std::string library;                                        ///< "NCCL 2.28.9 (/usr/lib/...)"
    std::vector<BenchRow> rows;
    std::optional<StepVerdict> verdict; ///< from the counters during this run
    std::string problem;                ///< why it has no rows, or not all
    unsigned nodes = 0;                 ///< number of nodes with ranks
};

struct BenchReport {
    bool host = false;     ///< host memory, without GPUs
    bool software = false; ///< software RDMA: only a functional test
    std::string started;   ///< ISO 8601
    double seconds = 0;
    std::vector<std::string> nodes;
    std::vector<std::string> gpus; ///< model names, each once
    std::vector<BenchRun> runs;    ///< in chronological order
    std::string ended_early;       ///< "interrupted", "time limit", or why nothing was measured; empty: not ended early
};

} // namespace rdma_nccl
