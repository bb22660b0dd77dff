// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl bench`: NCCL's collectives over all GPUs of a step, with RDMA and without; with --host a ring in the
// hosts' memory. Started by srun, one process a task; the first leads.
#pragma once

#include "tools/bench_options.h"

#include <CLI/CLI.hpp>

namespace rdma_nccl {

/// Of the head 0 good, 1 warnings, 2 critical (RDMA was meant and not used, wrong values, a run failed), 3 cannot tell.
int run_bench(const BenchOptions& options);

void add_bench_command(CLI::App& app, int& exit_code);

} // namespace rdma_nccl
