// SPDX-License-Identifier: Apache-2.0
// What a member of `rdma-nccl pairs` does: it says what its node has, and carries out what the head orders.
#pragma once

#include "tools/measure_world.h"
#include "tools/pairs_options.h"

namespace rdma_nccl {

/// Returns the exit code: 0, or 3 when the head cannot be reached, or is gone before it has ended. Says why on stderr.
int take_part_in_pairs(const MeasureWorld& world, const PairsOptions& options, const Settings& settings);

} // namespace rdma_nccl
