// SPDX-License-Identifier: Apache-2.0
// What one node knows, at the end of a step, of the bytes that went over RDMA and over sockets: facts only, no verdict.
#pragma once

#include "lib/traffic.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// How the kernel's own begin in QpEvidence::others.
inline constexpr std::string_view kernel_owner = "the kernel's ";

/// Queue pairs seen while the step ran.
struct QpEvidence {
    bool known = false;                 ///< RDMA netlink could be read at least once
    std::string unknown_why;            ///< else why not
    unsigned most_own = 0;              ///< of the step's own processes, at one time
    std::vector<std::string> own_ports; ///< "mlx5_1:1", on which it had some
    std::vector<std::string> others;    ///< who else had some: "job 12 step 0", "kernel: nvme_rdma", "mmfsd (pid 4711)"

    friend bool operator==(const QpEvidence&, const QpEvidence&) = default;
};

/// What the logs of the node's ranks say, summed up.
struct LogEvidence {
    unsigned ranks = 0;  ///< processes that said something of NCCL
    std::string version; ///< of NCCL
    std::vector<std::string> networks;
    std::uint64_t rdma = 0;     ///< connections over RDMA, without GPUDirect
    std::uint64_t rdma_gdr = 0; ///< and with it
    std::uint64_t sockets = 0;
    std::uint64_t nvlink = 0; ///< between nodes over NVLink
    std::uint64_t other = 0;  ///< over networks that we do not know
    std::uint64_t local = 0;  ///< inside nodes: GPU to GPU, shared memory
    unsigned nodes = 0;       ///< the most nodes that a communicator spans; 0: not said (before NCCL 2.20)
    bool info = false;        ///< something was said that only NCCL_DEBUG=INFO says
    std::vector<std::string> hcas;
    std::vector<std::string> causes; ///< of what went wrong, the most frequent first

    friend bool operator==(const LogEvidence&, const LogEvidence&) = default;
};

struct NodeEvidence {
    std::string node;
    Traffic traffic;
    QpEvidence qps;
    bool exclusive = false;                  ///< no other job was seen on the node
    bool rank_per_gpu = false;               ///< each of `gpus` is known to have a rank
    unsigned gpus = 0;                       ///< that the step uses on the node; 0: none, or not known
    std::optional<bool> gpu_direct_possible; ///< the kernel's part of it is there; absent: not known
    std::optional<LogEvidence> log;
    std::vector<std::string>
        causes;          ///< why RDMA may not have been used: what the node's plan and the ranks' environment say
    std::string problem; ///< why there is no or little evidence: "its counters could not be read in 2 s"

    friend bool operator==(const NodeEvidence&, const NodeEvidence&) = default;
};

} // namespace rdma_nccl
