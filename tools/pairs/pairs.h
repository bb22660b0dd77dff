// SPDX-License-Identifier: Apache-2.0
// `rdma-nccl pairs` measures RDMA between all nodes of a step, pair by pair. Worker 0 is the coordinator: it waits for
// the others, plans, measures, and makes the report. A worker reports what its node has and carries out the
// coordinator's orders.
#pragma once

#include "tools/measure/command.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/model.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::pairs {

enum class RailPairing {
    Same,  ///< rail i with rail i, one after the other
    Cross, ///< each rail with each
};

/// The command line of `rdma-nccl pairs`. All workers have the same one.
struct Options : measure::Options {
    std::string schedule;      ///< "all", "quick", "ring", "bisection", "loopback"; empty: not given
    unsigned quick_rounds = 3; ///< for "quick"
    RailPairing rails = RailPairing::Same;
    std::optional<unsigned> only_rail; ///< measure only this rail
    Measurement measure;
    std::optional<bool> retest; ///< absent: only with "quick"
    std::uint64_t seed = 1;
    JudgeRules rules;
};

void add_command(const Subcommand& app, int& exit_code);

/// Runs on the coordinator, within the time limits of `options`. Sends {"do": "end"} to all workers at the end.
Report coordinate(measure::Coordinator& coordinator, const measure::World& world, const Options& options,
                  measure::Progress& progress);

/// Returns the exit code: 0, or 3 and a message on stderr if the coordinator is not reached or gone before its "end".
int work(const measure::World& world, const Options& options, const Settings& settings);

// --- Which nodes are measured with which, and when. Pairings of a round share no node, so that they do not disturb
// each other at their ends (they may still share links of the network) ---

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

/// Repeats each round for each rail, without pairings whose nodes lack it. `rails`: number of rails of each node.
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
