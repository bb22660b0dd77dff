// SPDX-License-Identifier: Apache-2.0
// The cells of a row of `rdma-nccl top`, the same in the table and in plain lines.
#pragma once

#include "tools/top_sample.h"

#include <array>
#include <string>

namespace rdma_nccl {

struct TopCells {
    std::string name, netdev, link, sent, received, use, share, notes;
    /// Nothing moves: 1 where something is expected to, 2 elsewhere.
    unsigned idle = 0;
};

TopCells cells_of(const TopPort& port, const TopSample& sample);
TopCells cells_of(const TopNetdev& netdev, const TopSample& sample);

/// What has to be known of the node as a whole.
std::vector<std::string> notes_of(const TopSample& sample);

/// "98.7 %", "" when nothing moved at all.
std::string share_text(const Bytes& bytes, const TopSample& sample);

} // namespace rdma_nccl
