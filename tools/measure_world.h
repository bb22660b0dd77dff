// SPDX-License-Identifier: Apache-2.0
// The processes that measure together: who they are, and where they meet.
#pragma once

#include "lib/environment.h"
#include "lib/ip.h"
#include "lib/net/key.h"
#include "lib/result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

struct MeasureWorld {
    unsigned member = 0;           ///< from 0; the head is 0
    unsigned members = 1;          ///< processes: the step's tasks, or one a node where launchers start the ranks
    unsigned local = 0;            ///< among those of this node
    bool ranks = false;            ///< a process for each GPU (rank layout); else this one has all GPUs of its node
    std::string node;              ///< this host's name
    std::optional<IpAddress> head; ///< where member 0 is; absent only in a world of one, who uses loopback
    std::uint16_t port = 0;        ///< 0: any, in a world of one
    Key key;                       ///< the same for all members
};

/// From what the plugin has set (RANK and WORLD_SIZE, or NODE_RANK and NNODES; MASTER_ADDR and MASTER_PORT), or a user
/// in its stead; without any of it outside of a step: alone. In a step without the plugin it fails and names `srun
/// --rdma-nccl`; so do several processes without the step's key. `subcommand` is for the message.
Result<MeasureWorld> measure_world(const Environment& environment, std::string node, std::string_view subcommand,
                                   KeyPurpose purpose);

} // namespace rdma_nccl
