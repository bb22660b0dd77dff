// SPDX-License-Identifier: Apache-2.0
// Chooses the GPUs of a run, and the runs to do. Pure functions of what the workers offer.
#pragma once

#include "tools/bench/rank/order.h"

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

} // namespace rdma_nccl::bench
