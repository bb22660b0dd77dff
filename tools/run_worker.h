// SPDX-License-Identifier: Apache-2.0
// The environment of a rank: torchrun's worker variables (torch.distributed.elastic.agent.server.local_elastic_agent),
// and what torchrun leaves to the user.
#pragma once

#include "lib/environment.h"
#include "lib/node_placement.h"
#include "tools/run_world.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

struct WorkerSettings {
    unsigned allowed_cpus = 1;             ///< CPUs of the affinity mask that all ranks of the node share
    bool torchelastic = true;              ///< with TORCHELASTIC_*
    std::string error_directory = {};      ///< for TORCHELASTIC_ERROR_FILE; empty: leave that out
    const NodePlacement* placed = nullptr; ///< where the ranks are put; nullptr: where they will
    std::string role = "default";
    unsigned attempt = 0; ///< how often the ranks were started before
    unsigned max_restarts = 0;
    bool virtual_local_rank = false; ///< LOCAL_RANK is 0, and CUDA_VISIBLE_DEVICES the rank's one GPU
};

/// What a rank gets beyond what the launcher got. `base` is the launcher's environment: values of the user in it stay
/// where torchrun leaves them (OMP_NUM_THREADS, TORCH_NCCL_ASYNC_ERROR_HANDLING, JAX_LOCAL_DEVICE_IDS).
std::vector<std::pair<std::string, std::string>>
worker_variables(const WorldPlan& plan, unsigned local_rank, const WorkerSettings& settings, const Environment& base);

/// The rank's whole environment, "NAME=value" each.
std::vector<std::string> worker_environment(const WorldPlan& plan, unsigned local_rank, const WorkerSettings& settings,
                                            const Environment& base);

} // namespace rdma_nccl
