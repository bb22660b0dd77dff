// SPDX-License-Identifier: Apache-2.0
// The world that `rdma-nccl run` makes this node's ranks part of: how many nodes and ranks, which of them are here, and
// where they meet. Planning is pure; what only the machine can tell is asked through WorldInquiry.
#pragma once

#include "lib/environment.h"
#include "lib/exchange_values.h"
#include "lib/gpu_list.h"
#include "lib/result.h"
#include "lib/step.h"
#include "tools/run_options.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A value and what told it: "--nnodes", "PET_NNODES", "SLURM_STEP_NUM_NODES", ...
template<typename T>
struct Sourced {
    T value{};
    std::string source;
};

/// Every node has the same number of ranks, or what the nodes of a step have agreed on (RDMA_NCCL_RANKS).
struct WorldPlan {
    Sourced<unsigned> ranks_per_node;
    Sourced<unsigned> nodes;
    Sourced<unsigned> node_rank;
    Sourced<std::string> master_addr; ///< without the brackets of an IPv6 address
    Sourced<std::uint16_t> master_port;
    std::string run_id;              ///< TORCHELASTIC_RUN_ID, the same on all nodes
    std::optional<RankShare> agreed; ///< where ranks follow from GPUs, of which nodes may have different numbers
    std::vector<std::string> warnings;
    std::vector<std::string> notes; ///< the same on all nodes

    [[nodiscard]] unsigned world_size() const { return agreed ? agreed->total : nodes.value * ranks_per_node.value; }
    [[nodiscard]] unsigned first_rank() const {
        return agreed ? agreed->first : node_rank.value * ranks_per_node.value;
    }
};

/// Each is called at most once, and only where its answer is needed.
struct WorldInquiry {
    std::function<VisibleGpus()> visible_gpus;
    std::function<unsigned()> allowed_cpus;                       ///< of the affinity mask
    std::function<Result<std::uint16_t>()> free_port;             ///< for a world of this node alone
    std::function<Result<std::string>(const Step&)> head_address; ///< of the step's first node
    std::function<Result<std::uint16_t>(const Step&)> step_port;  ///< the same on all nodes of the step
    std::function<std::string()> random_id;
};

/// Each value comes from the strongest that has it: command line, PET_* (torchrun's variables), NNODES, NODE_RANK,
/// MASTER_ADDR and MASTER_PORT (set by the plugin or the user), the Slurm step; else the world is this node alone.
/// --rdzv-endpoint tells address and port where none of these does: under c10d it names a place where launchers meet,
/// which need not be the node of rank 0.
/// Fails with a message that names the option or variable, its value and what is valid.
Result<WorldPlan> plan_world(const RunOptions& options, const Environment& environment, const WorldInquiry& inquiry);

} // namespace rdma_nccl
