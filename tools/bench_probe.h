// SPDX-License-Identifier: Apache-2.0
// What a member has to measure with.
#pragma once

#include "lib/result.h"
#include "tools/bench.h"
#include "tools/measure_world.h"
#include "tools/node_plan.h"
#include "tools/pairs_values.h"

#include <string>
#include <vector>

namespace rdma_nccl {

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

} // namespace rdma_nccl
