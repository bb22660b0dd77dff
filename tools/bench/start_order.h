// SPDX-License-Identifier: Apache-2.0
// What a member of `rdma-nccl bench` reports about itself, and the order to start ranks. The head names only the kind
// of the run; the member decides which program and variables that means.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "tools/bench/rank/order.h"
#include "tools/verbs/rail.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct BenchOptions;
struct MeasureWorld;
struct NodePlan;

inline constexpr unsigned most_bench_places = 4096; ///< ranks on one node

struct BenchNode {
    std::string name;
    unsigned local = 0;               ///< the member's index among those of its node
    std::vector<std::string> command; ///< starts a rank
    std::string library;              ///< NCCL's file, or the name that the dynamic loader searches for
    std::string library_text;         ///< "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
    int version = 0;                  ///< of NCCL; must be the same on all nodes
    unsigned places = 0; ///< slots for ranks: GPUs that it sees (times ranks_per_gpu), which other members may see too;
                         ///< with `host` 1 or 0
    std::vector<std::string> gpus; ///< models of all GPUs that it sees
    std::vector<std::string> pci;  ///< PCI addresses of these GPUs
    std::vector<PairRail> rails;   ///< with `host`
    std::string problem;           ///< why there are no places; also empty if another member of the node has its place
};

/// Inspects this node. Starts a rank that looks for GPUs, because drivers may hang, and waits for it for 20 s. `plan`:
/// the plan of this node; may be null.
BenchNode inspect_bench_node(const MeasureWorld& world, const BenchOptions& options, const NodePlan* plan);

/// Writes what the head needs to know; omits the command and the library's path, which stay with the member.
Json bench_node_json(const BenchNode& node);
/// Fails on anything that bench_node_json() does not write.
Result<BenchNode> read_bench_node(const Json& json);

struct BenchRankPlace {
    unsigned rank = 0;
    unsigned gpu = 0; ///< CUDA's number

    friend bool operator==(const BenchRankPlace&, const BenchRankPlace&) = default;
};

struct BenchStart {
    int run = 0; ///< number of the run
    BenchKind kind = BenchKind::AsItIs;
    unsigned count = 0;                ///< ranks of the whole run
    std::vector<BenchRankPlace> ranks; ///< ranks of this member
    BenchWork work;
    unsigned rings = 0; ///< rings in host memory
    bool watch = false; ///< this member watches its node's counters

    friend bool operator==(const BenchStart&, const BenchStart&) = default;
};

/// Returns {"do": "start", ...}.
Json start_json(const BenchStart& start);
/// Refuses the whole order if it holds anything that start_json() does not write, e.g. variables for the ranks, or more
/// ranks than `places`.
Result<BenchStart> read_start(const Json& order, unsigned places);

} // namespace rdma_nccl
