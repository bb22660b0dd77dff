// SPDX-License-Identifier: Apache-2.0
#pragma once

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

} // namespace rdma_nccl
