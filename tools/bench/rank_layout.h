// SPDX-License-Identifier: Apache-2.0
// What the workers offer, the choice of GPUs and runs from it, and the order to start ranks. Pure functions.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/net/release.h"
#include "tools/bench/rank/order.h"
#include "tools/verbs/rail.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::bench {

/// What a process of the step can measure with.
struct Offer {
    unsigned worker = 0;
    std::string node;
    unsigned slots = 0; ///< for ranks: one for each GPU (times ranks_per_gpu), or with --host one for each node

    friend bool operator==(const Offer&, const Offer&) = default;
};

struct RankSlot {
    unsigned worker = 0;
    unsigned slot = 0; ///< index among that worker's slots, from 0

    friend bool operator==(const RankSlot&, const RankSlot&) = default;
};

/// Returns the places of ranks 0, 1, ... of a run, node by node in the order of the workers; nullopt if there are not
/// enough. Two ranks are placed on two nodes if there are two, because their figure should measure the network.
std::optional<std::vector<RankSlot>> places_for(const std::vector<Offer>& offers, unsigned ranks);

std::size_t nodes_of(const std::vector<Offer>& offers, const std::vector<RankSlot>& places);

/// The GPUs that a process of the step sees.
struct WorkerGpus {
    std::string node;
    unsigned local_rank = 0;       ///< index among the processes of this node
    std::vector<std::string> gpus; ///< PCI addresses in CUDA's order; empty: unknown
};

/// Returns, for each process, the numbers of the GPUs that it uses. Each GPU of a node is used once, whether the step
/// shows all GPUs to all tasks, some to each task, or the same one to two tasks.
std::vector<std::vector<unsigned>> share_gpus(const std::vector<WorkerGpus>& visible);

/// Returns 2, 4, 8, ... below the number of all places, and that number.
std::vector<unsigned> default_rank_counts(const std::vector<Offer>& offers);

std::vector<RunKind> kinds_of_runs(bool between_nodes, bool without_gpu_direct);

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Returns what a run adds to the environment of its ranks. Without RDMA: no InfiniBand transport of NCCL's, no network
/// plugins, which NCCL may find even if none is named, and no choice of a network that would then fail.
Variables variables_of(RunKind kind);

/// A run that is not yet measured. `host`: in host memory.
Run make_run(RunKind kind, unsigned ranks, bool host = false);

// --- What a worker reports about itself, and the order to start ranks. The order names the kind of the run; the worker
// decides which program and variables that means. ---

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
    Release release = own_release();
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
