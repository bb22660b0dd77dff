// SPDX-License-Identifier: Apache-2.0
// What a member of `rdma-nccl bench` says of itself, and the order to start ranks. What is started, and with which
// variables, is not the head's to say: it names the kind of the run alone.
#pragma once

#include "lib/json.h"
#include "lib/result.h"
#include "tools/bench_values.h"
#include "tools/bench_work.h"
#include "tools/pairs_values.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct BenchOptions;
struct MeasureWorld;
struct NodePlan;

inline constexpr unsigned most_bench_places = 4096; ///< for ranks, on one node

struct BenchNode {
    std::string name;
    unsigned local = 0;               ///< the member's number among those of its node
    std::vector<std::string> command; ///< of a rank
    std::string library;              ///< NCCL's file, or the name that the loader knows
    std::string library_text;         ///< "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
    int version = 0;                  ///< of NCCL: all nodes need the same
    unsigned places = 0;              ///< for ranks: GPUs that it sees, which other members may see, too
    std::vector<std::string> gpus;    ///< models of all GPUs that it sees
    std::vector<std::string> pci;     ///< addresses of the same
    std::vector<PairRail> rails;      ///< of `host`
    std::string problem;              ///< why there are no places; empty also for one whose node has another member
};

/// Starts a rank to look, as drivers may hang: within 20 s. `plan`: of this node; may be null.
BenchNode inspect_bench_node(const MeasureWorld& world, const BenchOptions& options, const NodePlan* plan);

/// What the head needs of it.
Json bench_node_json(const BenchNode& node);
/// Fails on what no member of ours says. Without the command and the library, which stay the member's own.
Result<BenchNode> read_bench_node(const Json& json);

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
Json start_json(const BenchStart& start);
/// Refuses as a whole what start_json() does not write, e.g. with variables for the ranks, and more ranks than
/// `places`.
Result<BenchStart> read_start(const Json& order, unsigned places);

} // namespace rdma_nccl
