// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl bench`: NCCL's collectives over all GPUs of a step, with RDMA and without; with --host a ring in the
// hosts' memory. Started by srun, one process a task; the first leads.
#pragma once

#include "tools/bench_values.h"
#include "tools/bench_work.h"
#include "tools/measure_options.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

class MeasureHead;
class PairsProgress;
struct MeasureWorld;

/// What the command line of `rdma-nccl bench` says; the same on all members.
struct BenchOptions : MeasureOptions {
    BenchWork work;
    std::vector<unsigned> ranks;            ///< numbers of GPUs, or of nodes; empty: 2, 4, 8, ... and all
    bool without_gpu_direct = false;        ///< run C, too
    bool host = false;                      ///< no GPUs: the hosts' memory
    std::optional<unsigned> rings;          ///< of `host`; absent: one for each HCA
    std::string nccl;                       ///< a file or directory; empty: found (bench_probe.cpp)
    unsigned ranks_per_gpu = 1;             ///< each as on a node of its own: to try the network's path on one GPU
    std::chrono::milliseconds limit{60000}; ///< ends a run after this long without progress
};

/// Of the head 0 good, 1 warnings, 2 critical (RDMA was meant and not used, wrong values, a run failed), 3 cannot tell.
int run_bench(const BenchOptions& options);

void add_bench_command(const Subcommand& app, int& exit_code);

/// Of the head: waits for the members, leads all runs, and tells what came of them; also when it was interrupted. A
/// report without runs says in `ended_early` why there are none.
BenchReport lead_bench(MeasureHead& head, const MeasureWorld& world, const BenchOptions& options,
                       PairsProgress& progress);

// --- A member has what ranks need, starts them when the head says so, passes on what they say, and watches its node's
// counters meanwhile ---

// The head's orders, each with the number of its run:
//   {"do": "start", ...}                         bench_order.h
//   {"do": "go", "run": 3, "rank": 0, "go": {...}}   for a rank, behind its offer
//   {"do": "stop", "run": 3}
//   {"do": "evidence", "run": 3}
//   {"do": "end"}
// and the answers:
//   {"run": 3, "rank": 0, "says": {...}}         bench_channel.h; "at" of rank 0 alone
//   {"run": 3, "refused": "..."}                 an order to start; no rank was
//   {"run": 3, "rank": 0, "ended": "", "at": "..."}   `ended`: why, empty when it ended well
//   {"run": 3, "evidence": "..."}                lib/exchange_message.h

/// Until the head ends it. The exit code.
int take_part_in_bench(const MeasureWorld& world, const BenchOptions& options);

} // namespace rdma_nccl
