// SPDX-License-Identifier: Apache-2.0
// Which GPUs take part in a run, and which runs there are: pure functions of what the members offer.
#pragma once

#include "tools/bench_values.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// What a process of the step has to measure with.
struct BenchOffer {
    unsigned member = 0;
    std::string node;
    unsigned gpus = 0; ///< places for ranks: GPUs, or one of a node without

    friend bool operator==(const BenchOffer&, const BenchOffer&) = default;
};

struct BenchPlace {
    unsigned member = 0;
    unsigned gpu = 0; ///< of that member's, from 0

    friend bool operator==(const BenchPlace&, const BenchPlace&) = default;
};

/// Where ranks 0, 1, ... of a run are. Node by node, in the order of the members; but two ranks are on two nodes where
/// there are two, as their figure is to be one of the network. nullopt: there are not so many.
std::optional<std::vector<BenchPlace>> places_for(const std::vector<BenchOffer>& offers, unsigned ranks);

/// On how many nodes those are.
std::size_t nodes_of(const std::vector<BenchOffer>& offers, const std::vector<BenchPlace>& places);

/// The GPUs that a process of the step sees.
struct BenchSight {
    std::string node;
    unsigned local = 0;            ///< its number among those of this node
    std::vector<std::string> gpus; ///< PCI addresses, as CUDA numbers them; empty texts are not known
};

/// For each of them the numbers of the GPUs that it uses. Each GPU of a node is used once, however the step shows them:
/// all to all tasks, to each task some of its own, or the same one to two.
std::vector<std::vector<unsigned>> share_gpus(const std::vector<BenchSight>& sights);

/// 2, 4, 8, ... below all, and all.
std::vector<unsigned> default_rank_counts(const std::vector<BenchOffer>& offers);

std::vector<BenchKind> kinds_of_runs(bool between_nodes, bool without_gpu_direct);

using BenchVariables = std::vector<std::pair<std::string, std::string>>;

/// What a run sets beside what its ranks have anyway. Without RDMA: no transport of NCCL's own for it, no network of a
/// plugin, which may be found without being named, and no choice of a network that would fail then.
BenchVariables variables_of(BenchKind kind);

/// Name, words, variables; not yet measured.
BenchRun make_run(BenchKind kind, unsigned ranks);
BenchRun make_host_run(BenchKind kind, unsigned ranks);

} // namespace rdma_nccl
