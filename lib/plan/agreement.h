// SPDX-License-Identifier: Apache-2.0
// What the nodes of a step agree on, as each of them learns it.
#pragma once

#include "lib/net/ip.h"
#include "lib/plan/port_block.h"
#include "lib/settings/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The ranks of the step that a node starts itself (node and pod layout).
struct RankShare {
    unsigned first = 0;
    unsigned count = 0;
    unsigned total = 0;

    friend bool operator==(const RankShare&, const RankShare&) = default;
};

/// srun's answer. Only `ranks` and `left_out` differ between nodes.
struct Agreement {
    std::string head_node;
    std::optional<IpAddress> head; ///< absent: MASTER_ADDR stays as the user set it
    std::string head_why;
    std::optional<PortBlock> block{};
    Layout layout = Layout::Rank;
    std::optional<RankShare> ranks{};
    std::vector<std::string> left_out{};       ///< ports that this node must not use: "mlx5_3:1"
    std::optional<std::string> strict_fault{}; ///< why strict forbids the step to run
};

} // namespace rdma_nccl
