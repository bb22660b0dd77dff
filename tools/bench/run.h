// SPDX-License-Identifier: Apache-2.0
// One run as the coordinator sees it: all its ranks from start to end, and the counters of their nodes.
#pragma once

#include "tools/bench/bench.h"
#include "tools/bench/rank_layout.h"
#include "tools/bench/start_order.h"
#include "tools/measure/channel.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::bench {

/// A worker as the coordinator knows it.
struct Peer {
    Offer offer;
    InspectedNode node;
    std::vector<unsigned> gpus{}; ///< GPUs that its ranks use, by CUDA's numbers in its process; empty with `host`
};

/// What all runs share.
struct RunContext {
    measure::Coordinator& head;
    const Options& options;
    std::map<unsigned, Peer>& peers;  ///< lost workers are removed
    std::vector<std::string>& losses; ///< "n02 is gone: its process has ended"
};

/// A run before it is carried out.
struct RunPlan {
    int number = 0;
    std::vector<RankSlot> places; ///< of the ranks
    unsigned rings = 0;           ///< with `host`
};

/// Carries out a run and fills in its results. Calls `on_row` for each. Returns when all ranks have ended and their
/// nodes have sent their counters: "interrupted" or "time limit" if it was ended early, else an empty text.
std::string carry_out(const RunContext& context, RunPlan plan, Run& run,
                      std::optional<measure::Clock::time_point> deadline, std::function<void(const ResultRow&)> on_row);

} // namespace rdma_nccl::bench
