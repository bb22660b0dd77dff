// SPDX-License-Identifier: Apache-2.0
// Which collectives, sends and receives a job's ranks are stuck in, and which ranks differ there. Pure.
#pragma once

#include "lib/flight_recorder/dump.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::flight_recorder {

/// The oldest collective of a process group that not all its ranks have completed; or a send that waits, or its
/// receive.
struct StuckCollective {
    std::string group;                   ///< the process group's description, else its name
    std::uint32_t ranks = 0;             ///< of the group
    std::string name;                    ///< "all_reduce"; of most ranks; or "send 3->4"
    std::uint64_t sequence = 0;          ///< from 1; 0: of a send, which has none that both ranks know
    std::vector<std::uint32_t> culprits; ///< ranks that have not entered it, or call another one
    bool is_cause = false;               ///< its culprits wait in no other group
    std::vector<std::string> notes; ///< which ranks differ, and how: a sentence each, printable, at most 90 columns

    friend bool operator==(const StuckCollective&, const StuckCollective&) = default;
};

/// Returns the stuck collectives and sends of all groups: causes first, then those in which ranks differ, then the
/// others.
std::vector<StuckCollective> find_stuck(std::span<const Dump> dumps);

/// Returns 'process group "dp" (16 ranks): all_reduce 4711: rank 13 has not entered it; 15 others wait'; where that
/// is longer than a line, or there is more to say, each note has a line of its own below. At most 96 columns.
std::vector<std::string> stuck_lines(const StuckCollective& stuck);

} // namespace rdma_nccl::flight_recorder
