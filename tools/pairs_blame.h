// SPDX-License-Identifier: Apache-2.0
// Which ends explain the bad observations, each of which has two ends: what is bad wherever it takes part is to blame,
// what is bad only together with it is not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rdma_nccl {

struct Observation {
    unsigned end[2] = {};  ///< numbers of the caller's
    unsigned node[2] = {}; ///< of which they are
    bool bad = false;
    bool explained = false; ///< by an end that is to blame
};

struct BlameRules {
    double share = 0.6;                  ///< of an end's observations that must be bad
    unsigned fewest_partners = 2;        ///< other nodes that it was observed with: with one alone both may be to blame
    std::span<const unsigned> only = {}; ///< these ends; empty: all
};

/// The ends to blame, the worst first; all their observations are marked as explained, good ones too. Those explained
/// before are not looked at. What was observed
/// of a node with itself needs no partners.
std::vector<unsigned> blame_ends(std::vector<Observation>& observations, unsigned ends, const BlameRules& rules);

} // namespace rdma_nccl
