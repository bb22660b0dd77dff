// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl bench` measures NCCL's collectives over all GPUs of a step, with and without RDMA. With --host it measures
// a ring in host memory. srun starts one process per task; the first one is the coordinator.
#pragma once

#include "tools/bench/rank_layout.h"
#include "tools/measure/command.h"
#include "tools/node/node_plan.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::bench {

/// The command line of `rdma-nccl bench`. All workers have the same one.
struct Options : measure::Options {
    Work work;
    std::vector<unsigned> ranks; ///< numbers of GPUs, or of nodes with `host`, to measure; empty: 2, 4, 8, ... and all
    bool without_gpu_direct = false; ///< also run C (RDMA without GPUDirect)
    bool host = false;               ///< use host memory instead of GPUs
    std::optional<unsigned> rings;   ///< number of rings with `host`; absent: one per HCA
    std::string nccl;                ///< NCCL's file or directory; empty: search for it (probe.cpp)
    unsigned ranks_per_gpu = 1; ///< each rank pretends to be on a node of its own, to try the network path on one GPU
    double limit_s = 60;        ///< end a run after this long without progress
};

/// The coordinator's exit code: 0 good, 1 warnings, 2 RDMA not used, wrong values or a failed run, 3 cannot tell.
void add_command(const Subcommand& app, int& exit_code);

// --- The coordinator ---

/// Runs on the coordinator: waits for the workers, carries out all runs and returns the results, also after an
/// interrupt. A report without runs gives the reason in `ended_early`.
Report coordinate_runs(measure::Coordinator& head, const measure::World& world, const Options& options,
                       measure::Progress& progress);

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

// --- A worker starts ranks on the coordinator's order, forwards their messages, and watches its node's counters ---

// The coordinator's orders. Each but "end" has the number of its run:
//   {"do": "start", ...}                         rank_layout.h
//   {"do": "go", "run": 3, "rank": 0, "go": {...}}   for one rank, after its offer
//   {"do": "leave", "run": 3, "rank": 0}         for one rank with --host, after all are done
//   {"do": "stop", "run": 3}
//   {"do": "evidence", "run": 3}
//   {"do": "end"}
// The answers:
//   {"run": 3, "rank": 0, "says": {...}}         rank/order.h; "at" only from rank 0
//   {"run": 3, "refused": "..."}                 answers "start"; no rank was started
//   {"run": 3, "rank": 0, "ended": "", "at": "..."}   `ended`: the reason; empty if the rank ended well
//   {"run": 3, "evidence": "..."}                lib/exchange/codec.h

/// Starts a rank that looks for GPUs, because drivers may hang, and waits for it for 20 s. `plan` may be null.
InspectedNode inspect_node(const measure::World& world, const Options& options, const NodePlan* plan);

/// Serves the coordinator until it sends "end" or is gone. Returns the exit code.
int serve_ranks(const measure::World& world, const Options& options);

} // namespace rdma_nccl::bench
