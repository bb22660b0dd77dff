// SPDX-License-Identifier: Apache-2.0
// What a node knows at the end of a step about the bytes sent over RDMA and over sockets: facts only, no verdict.
#pragma once

#include "lib/nccl_log/log_evidence.h"
#include "lib/traffic/traffic.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The prefix of the kernel's own entries in QpEvidence::others.
inline constexpr std::string_view kernel_owner = "the kernel's ";

/// The queue pairs seen while the step ran.
struct QpEvidence {
    bool known = false;                 ///< RDMA netlink could be read at least once
    std::string unknown_why;            ///< the reason when not `known`
    unsigned most_own = 0;              ///< the most that the step's own processes had at one time
    std::vector<std::string> own_ports; ///< the ports on which the step had some, "mlx5_1:1"
    std::vector<std::string> others;    ///< other owners: "job 12 step 0", "the kernel's nvme_rdma", "mmfsd (pid 4711)"

    friend bool operator==(const QpEvidence&, const QpEvidence&) = default;
};

struct NodeEvidence {
    std::string node;
    Traffic traffic;
    QpEvidence qps;
    bool exclusive = false;                  ///< no other job was seen on the node
    bool rank_per_gpu = false;               ///< every one of `gpus` is known to have a rank
    unsigned gpus = 0;                       ///< the GPUs of the node that the step uses; 0: none, or unknown
    std::optional<bool> gpu_direct_possible; ///< the kernel's part of GPUDirect is present; absent: unknown
    std::optional<LogEvidence> log;
    std::vector<std::string> causes; ///< why RDMA may not have been used, by the node's plan and the ranks' environment
    std::string problem;             ///< why there is little or no evidence: "its counters could not be read in 2 s"

    friend bool operator==(const NodeEvidence&, const NodeEvidence&) = default;
};

} // namespace rdma_nccl
