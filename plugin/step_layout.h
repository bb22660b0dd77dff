// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/step.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

struct RankZeroNode {
    std::string name;
    std::string address; ///< NodeAddr, a name or a numeric address
};

/// Where the step layout puts rank 0, from slurmctld: two RPCs, in srun only, so their number does not grow with the
/// nodes. nullopt when Slurm does not say. Exact also for arbitrary, heterogeneous and topology-aware layouts.
std::optional<RankZeroNode> find_rank_zero(std::uint32_t job_id, std::uint32_t step_id);

/// A note that says so, with a numeric address that other nodes can use, if the node's resolves to one.
StepNote make_note(std::uint32_t job_id, std::uint32_t step_id, const RankZeroNode& rank_zero);

} // namespace rdma_nccl
