// SPDX-License-Identifier: Apache-2.0
// Which sends and receives wait, and what their other ends say of it. Pure.
#pragma once

#include "lib/flight_recorder/summary.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::flight_recorder {

/// A pair of ranks in a process group, one way.
struct StuckTransfer {
    std::uint64_t key = 0;   ///< of the group
    StuckCollective stuck{}; ///< without is_cause
};

/// Returns "send 3->4" for a send of rank 3 and the receive of its other end.
std::string transfer_name(std::uint32_t rank, const Transfers& transfers);

/// Returns the pairs that wait. A note says that a rank has not posted its end only if its file shows that, and that
/// ends differ only if both files have all from the first, because only their order connects a send with its receive.
std::vector<StuckTransfer> find_stuck_transfers(std::span<const Dump> dumps);

} // namespace rdma_nccl::flight_recorder
