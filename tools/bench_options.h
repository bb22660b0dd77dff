// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/bench_work.h"
#include "tools/settings_options.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What the command line of `rdma-nccl bench` says; the same on all members.
struct BenchOptions {
    SettingsOptions settings;
    BenchWork work;
    std::vector<unsigned> ranks;            ///< numbers of GPUs, or of nodes; empty: 2, 4, 8, ... and all
    bool without_gpu_direct = false;        ///< run C, too
    bool host = false;                      ///< no GPUs: the hosts' memory
    std::optional<unsigned> rings;          ///< of `host`; absent: one for each HCA
    std::string nccl;                       ///< a file or directory; empty: found (bench_nccl.h)
    unsigned ranks_per_gpu = 1;             ///< each as on a node of its own: to try the network's path on one GPU
    std::chrono::milliseconds limit{60000}; ///< a run in which nothing happens for so long is ended
    std::optional<std::chrono::milliseconds> time_limit;
    std::chrono::milliseconds join_time{60000}; ///< how long members are waited for
    bool json = false;
    bool quiet = false;    ///< no progress
    std::string csv, html; ///< files; "-": stdout; empty: none
};

} // namespace rdma_nccl
