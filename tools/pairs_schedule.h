// SPDX-License-Identifier: Apache-2.0
// Which nodes are measured with which, and when. Pairings of a round share no node, so that none disturbs another at
// its ends (they may still share links of the network).
#pragma once

#include "tools/pairs_values.h"

#include <cstdint>
#include <span>
#include <vector>

namespace rdma_nccl {

/// Nodes only; rails are 0.
using NodeRounds = std::vector<Round>;

/// Each node with each other once, by the circle method: nodes - 1 rounds of nodes / 2 pairs; for an odd number of
/// nodes as many rounds as nodes, in each of which one node rests.
NodeRounds all_pairs(unsigned nodes);
/// So many rounds, each a random matching, no pair twice as long as there are others.
NodeRounds quick_pairs(unsigned nodes, unsigned rounds, std::uint64_t seed);
/// Each node with the next, as rings of collectives use it.
NodeRounds ring_pairs(unsigned nodes);
/// Node i with node i + nodes / 2, all at once: what the middle of the network carries. Of an odd number the last one
/// meets the first in a second round.
NodeRounds bisection_pairs(unsigned nodes);
/// Each node with itself, all at once: HCA and PCIe without the network.
NodeRounds loopback_pairs(unsigned nodes);
/// Suspects (indices) each with a good node, and their partners likewise.
NodeRounds retest_pairs(std::span<const unsigned> suspects, std::span<const unsigned> good);

enum class RailPairing {
    Same,  ///< rail i with rail i, one after the other
    Cross, ///< each with each
};

/// Each round once for each rail (of `rails` per node, by node): rounds of which a node has no such rail are without
/// it.
std::vector<Round> with_rails(const NodeRounds& rounds, std::span<const unsigned> rails, RailPairing pairing);

} // namespace rdma_nccl
