// SPDX-License-Identifier: Apache-2.0
// What a worker of `rdma-nccl bench` reports about itself, and the order to start ranks. The order names the kind of
// the run; the worker decides which program and variables that means.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "tools/bench/rank/order.h"
#include "tools/verbs/rail.h"

#include <string>
#include <vector>

namespace rdma_nccl::bench {

inline constexpr unsigned most_places = 4096; ///< ranks on one node

struct InspectedNode {
    std::string name;
    unsigned local = 0;               ///< the worker's index among those of its node
    std::vector<std::string> command; ///< starts a rank
    std::string library;              ///< NCCL's file, or the name that the dynamic loader searches for
    std::string library_text;         ///< "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
    int version = 0;                  ///< of NCCL; must be the same on all nodes
    unsigned places = 0; ///< slots for ranks: GPUs that it sees (times ranks_per_gpu), which other workers may see too;
                         ///< with `host` 1 or 0
    std::vector<std::string> gpus; ///< models of all GPUs that it sees
    std::vector<std::string> pci;  ///< PCI addresses of these GPUs
    std::vector<PairRail> rails;   ///< with `host`
    std::string problem;           ///< why there are no places; also empty if another worker of the node has its place
};

/// Writes what the coordinator needs to know; omits the command and the library's path, which stay with the worker.
Json inspected_node_json(const InspectedNode& node);
/// Fails on anything that inspected_node_json() does not write.
Result<InspectedNode> read_inspected_node(const Json& json);

struct RankPlace {
    unsigned rank = 0;
    unsigned gpu = 0; ///< CUDA's number

    friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

struct StartOrder {
    int run = 0; ///< number of the run
    RunKind kind = RunKind::AsItIs;
    unsigned count = 0;           ///< ranks of the whole run
    std::vector<RankPlace> ranks; ///< ranks of this worker
    Work work;
    unsigned rings = 0; ///< rings in host memory
    bool watch = false; ///< this worker watches its node's counters

    friend bool operator==(const StartOrder&, const StartOrder&) = default;
};

/// Returns {"do": "start", ...}.
Json start_json(const StartOrder& start);
/// Refuses an order with anything that start_json() does not write, e.g. variables, or more ranks than `places`.
Result<StartOrder> read_start_order(const Json& order, unsigned places);

} // namespace rdma_nccl::bench
