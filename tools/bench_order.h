// SPDX-License-Identifier: Apache-2.0
// What a member of `rdma-nccl bench` says of itself, and the order to start ranks. What is started, and with which
// variables, is not the head's to say: it names the kind of the run alone.
#pragma once

#include "lib/result.h"
#include "tools/bench_probe.h"
#include "tools/bench_values.h"
#include "tools/bench_work.h"

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace rdma_nccl {

inline constexpr unsigned most_bench_places = 4096; ///< for ranks, on one node

/// What the head needs of it.
nlohmann::json bench_node_json(const BenchNode& node);
/// Fails on what no member of ours says. Without the command and the library, which stay the member's own.
Result<BenchNode> read_bench_node(const nlohmann::json& json);

struct BenchRankPlace {
    unsigned rank = 0;
    unsigned gpu = 0; ///< CUDA's number

    friend bool operator==(const BenchRankPlace&, const BenchRankPlace&) = default;
};

struct BenchStart {
    int run = 0; ///< its number
    BenchKind kind = BenchKind::AsItIs;
    unsigned count = 0;                ///< ranks of the run
    std::vector<BenchRankPlace> ranks; ///< those of the member
    BenchWork work;
    unsigned rings = 0; ///< in the hosts' memory
    bool watch = false; ///< the member looks at its node's counters

    friend bool operator==(const BenchStart&, const BenchStart&) = default;
};

/// {"do": "start", ...}
nlohmann::json start_json(const BenchStart& start);
/// Refuses as a whole what start_json() does not write, e.g. with variables for the ranks, and more ranks than
/// `places`.
Result<BenchStart> read_start(const nlohmann::json& order, unsigned places);

} // namespace rdma_nccl
