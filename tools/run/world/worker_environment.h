// SPDX-License-Identifier: Apache-2.0
// The environment of a rank: torchrun's worker variables (torch.distributed.elastic.agent.server.local_elastic_agent),
// and variables that torchrun leaves to the user.
#pragma once

#include "lib/plan/node_placement.h"
#include "lib/sys/environment.h"
#include "tools/run/world/world.h"

#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl::run {

/// Names and values.
using Variables = std::vector<std::pair<std::string, std::string>>;

struct WorkerSettings {
    unsigned allowed_cpus = 1;             ///< CPUs of the affinity mask, which all ranks of the node share
    bool torchelastic = true;              ///< set TORCHELASTIC_*
    std::string error_directory = {};      ///< for TORCHELASTIC_ERROR_FILE; empty: do not set it
    const NodePlacement* placed = nullptr; ///< places of the ranks; nullptr: not bound
    std::string role = "default";
    unsigned attempt = 0; ///< how many times the ranks were started before
    unsigned max_restarts = 0;
    bool virtual_local_rank = false; ///< LOCAL_RANK is 0, and CUDA_VISIBLE_DEVICES is the rank's GPU
};

/// Returns the variables that a rank gets in addition to the launcher's. `base` is the launcher's environment: the
/// user's values in it are kept where torchrun keeps them (OMP_NUM_THREADS, TORCH_NCCL_ASYNC_ERROR_HANDLING,
/// JAX_LOCAL_DEVICE_IDS).
Variables worker_variables(const WorldPlan& plan, unsigned local_rank, const WorkerSettings& settings,
                           const Environment& base);

/// Returns the rank's whole environment, each entry as "NAME=value".
std::vector<std::string> worker_environment(const WorldPlan& plan, unsigned local_rank, const WorkerSettings& settings,
                                            const Environment& base);

} // namespace rdma_nccl::run
