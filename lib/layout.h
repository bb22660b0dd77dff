// SPDX-License-Identifier: Apache-2.0
// rank, node or pod: which meaning RANK and WORLD_SIZE get (design section 4).
#pragma once

#include "lib/program.h"
#include "lib/settings.h"
#include "lib/step.h"

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

struct LayoutChoice {
    Layout layout = Layout::Rank; ///< never Auto
    std::string why;
    std::vector<std::string> warnings;
    bool spawn = false; ///< `rdma-nccl run` is to be put in front of the program
};

/// `visible_gpus`: GPUs this node's tasks see. Uses nothing that differs between nodes but that number.
LayoutChoice choose_layout(const Settings& settings, const Step& step, const Program& program, unsigned visible_gpus);

std::string_view layout_name(Layout layout);

} // namespace rdma_nccl
