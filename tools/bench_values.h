// SPDX-License-Identifier: Apache-2.0
// What `rdma-nccl bench` measures, as plain values: collectives over the same ranks with RDMA and without.
#pragma once

#include "lib/verdict.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// One size of one operation: columns as nccl-tests has them (out of place and in place).
struct BenchTimes {
    double time_us = 0; ///< median of the repeats
    double min_us = 0, max_us = 0;
    double algbw = 0, busbw = 0;        ///< 1e9 bytes/s, of the median; factors as in nccl-tests' PERFORMANCE.md
    std::optional<std::uint64_t> wrong; ///< values; absent: not checked

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

/// Runs of one number of ranks. As it is, without RDMA, and as it is again, which shows a drift; where no network is
/// needed, only the first.
enum class BenchKind { AsItIs, NoRdma, NoGpuDirect, AsItIsAgain };

/// One start of all ranks with one set of variables.
struct BenchRun {
    std::string name; ///< "A", "B", "C", "A'"
    std::string what; ///< "as it is", "without RDMA", "RDMA without GPUDirect", "host memory, verbs", ...
    BenchKind kind = BenchKind::AsItIs;
    bool rdma_meant = true;                                     ///< RDMA is meant to be used
    unsigned ranks = 0;                                         ///< GPUs; of --host, nodes x rings
    std::vector<std::pair<std::string, std::string>> variables; ///< beside those that all runs have
    std::string library;                                        ///< "NCCL 2.28.9 (/usr/lib/...)"
    std::vector<BenchRow> rows;
    std::optional<StepVerdict> verdict; ///< what the counters say of this very run
    std::string problem;                ///< why it has no rows, or not all
    unsigned nodes = 0;                 ///< that its ranks are on
};

struct BenchReport {
    bool host = false;     ///< without GPUs
    bool software = false; ///< software RDMA: a functional test only
    std::string started;   ///< ISO 8601
    double seconds = 0;
    std::vector<std::string> nodes;
    std::vector<std::string> gpus; ///< names of their models, each once
    std::vector<BenchRun> runs;    ///< in the order of time
    std::string ended_early;       ///< "interrupted", "time limit"; empty: it was not
};

} // namespace rdma_nccl
