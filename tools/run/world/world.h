// SPDX-License-Identifier: Apache-2.0
// Plans the world of `rdma-nccl run`: how many nodes and ranks it has, which ranks run on this node, and the rendezvous
// address. Planning is pure; facts about the machine come through WorldInquiry.
#pragma once

#include "lib/base/result.h"
#include "lib/exchange/messages.h"
#include "lib/placement/visible_gpus.h"
#include "lib/slurm/step.h"
#include "lib/sys/environment.h"
#include "tools/run/options/options.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::run {

/// A value and its source: "--nnodes", "PET_NNODES", "SLURM_STEP_NUM_NODES", ...
template<typename T>
struct Sourced {
    T value{};
    std::string source;
};

/// The plan. Every node has the same number of ranks, or the number that the nodes of a step agreed on
/// (RDMA_NCCL_RANKS).
struct WorldPlan {
    Sourced<unsigned> ranks_per_node;
    Sourced<unsigned> nodes;
    Sourced<unsigned> node_rank;
    Sourced<std::string> master_addr; ///< without the brackets of an IPv6 address
    Sourced<std::uint16_t> master_port;
    std::string run_id;              ///< TORCHELASTIC_RUN_ID, the same on all nodes
    std::optional<RankShare> agreed; ///< set if the number of ranks is that of the GPUs, which may differ
    std::vector<std::string> warnings;
    std::vector<std::string> notes; ///< the same on all nodes

    [[nodiscard]] unsigned world_size() const { return agreed ? agreed->total : nodes.value * ranks_per_node.value; }
    [[nodiscard]] unsigned first_rank() const {
        return agreed ? agreed->first : node_rank.value * ranks_per_node.value;
    }
};

/// Questions to the machine. Each is called at most once, and only if its answer is needed.
struct WorldInquiry {
    std::function<VisibleGpus()> visible_gpus;
    std::function<unsigned()> allowed_cpus;                       ///< of the affinity mask
    std::function<Result<std::uint16_t>()> free_port;             ///< for a world of one node
    std::function<Result<std::string>(const Step&)> head_address; ///< of the step's first node
    std::function<Result<std::uint16_t>(const Step&)> step_port;  ///< the same on all nodes of the step
    std::function<std::string()> random_id;
};

/// Plans the world. Each value comes from the strongest source that has it: command line, PET_* (torchrun's variables),
/// NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT (set by the plugin or the user), the Slurm step. Without any, the
/// world is this node alone. --rdzv-endpoint gives address and port only if none of these does: under c10d it names a
/// place where launchers connect, which need not be the node of rank 0.
/// Fails with a message that names the option or variable, its value and the valid values.
Result<WorldPlan> plan_world(const Options& options, const Environment& environment, const WorldInquiry& inquiry);

} // namespace rdma_nccl::run
