// SPDX-License-Identifier: Apache-2.0
// The processes that measure together: their numbers, and where they connect.
#pragma once

#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "lib/net/key.h"
#include "lib/sys/environment.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

struct MeasureWorld {
    unsigned member = 0;           ///< from 0; the head is 0
    unsigned members = 1;          ///< processes: the step's tasks, or one per node if launchers start the ranks
    unsigned local = 0;            ///< index among the members of this node
    bool ranks = false;            ///< one process per GPU (rank layout); else this one has all GPUs of its node
    std::string node;              ///< this host's name
    std::optional<IpAddress> head; ///< member 0's address; may be absent in a world of one, which uses loopback
    std::uint16_t port = 0;        ///< 0: any, in a world of one
    Key key;                       ///< the same for all members
};

/// Determines the world from the variables that the plugin sets (RANK and WORLD_SIZE, or NODE_RANK and NNODES;
/// MASTER_ADDR and MASTER_PORT), or that a user sets instead. Without them, outside a step, the process is alone. Fails
/// in a step of several tasks without the plugin, and names `srun --rdma-nccl`; also fails for several processes
/// without the step's key. `subcommand` is for the message.
Result<MeasureWorld> measure_world(const Environment& environment, std::string node, std::string_view subcommand,
                                   KeyPurpose purpose);

} // namespace rdma_nccl
