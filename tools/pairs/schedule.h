// SPDX-License-Identifier: Apache-2.0
// Plans which nodes are measured with which, and when. Pairings of a round share no node, so that they do not disturb
// each other at their ends (they may still share links of the network).
#pragma once

#include "tools/pairs/model.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::pairs {

struct Options;

/// Nodes only; rails are 0.
using NodeRounds = std::vector<Round>;

/// Pairs each node with every other once, by the circle method: nodes - 1 rounds of nodes / 2 pairs. For an odd number
/// of nodes there are as many rounds as nodes, and one node rests in each.
NodeRounds all_pairs(unsigned nodes);
/// Returns `rounds` random matchings. No pair is repeated while others are left.
NodeRounds quick_pairs(unsigned nodes, unsigned rounds, std::uint64_t seed);
/// Pairs each node with the next, as rings of collectives do.
NodeRounds ring_pairs(unsigned nodes);
/// Pairs node i with node i + nodes / 2, all at once: what the middle of the network carries. If the number of nodes is
/// odd, the last one meets the first in a second round.
NodeRounds bisection_pairs(unsigned nodes);
/// Pairs each node with itself, all at once: HCA and PCIe without the network.
NodeRounds loopback_pairs(unsigned nodes);
/// Pairs each suspect with a good node. A node in both lists counts as a suspect.
NodeRounds retest_pairs(std::span<const unsigned> suspects, std::span<const unsigned> good);

enum class RailPairing {
    Same,  ///< rail i with rail i, one after the other
    Cross, ///< each rail with each
};

/// Repeats each round for each rail. `rails`: number of rails of each node. Pairings are left out if a node lacks the
/// rail.
std::vector<Round> with_rails(const NodeRounds& rounds, std::span<const unsigned> rails, RailPairing pairing);

/// Repeats the rounds for all rails that `options` asks for. Leaves out empty rounds.
std::vector<Round> over_rails(const NodeRounds& node_rounds, const Options& options,
                              const std::vector<measure::Node>& nodes);

/// Returns the rounds of a schedule for these nodes.
std::vector<Round> plan_rounds(const Options& options, const std::string& schedule,
                               const std::vector<measure::Node>& nodes);

std::size_t count_pairings(const std::vector<Round>& rounds);

/// Returns "4 nodes, 2 rails, all pairs: 6 rounds, 12 pairings, about 40 s".
std::string announce(const std::string& schedule, const std::vector<measure::Node>& nodes,
                     const std::vector<Round>& rounds, const Measurement& measure);

} // namespace rdma_nccl::pairs
