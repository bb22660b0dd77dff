// SPDX-License-Identifier: Apache-2.0
// Finds the ends that explain the bad observations, each of which has two ends. An end that is bad with many partners
// is to blame; an end that is bad only together with such an end is not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rdma_nccl {

struct Observation {
    unsigned end[2] = {};  ///< the caller's numbers
    unsigned node[2] = {}; ///< nodes of these ends
    bool bad = false;
    bool explained = false; ///< an end to blame explains it
};

struct BlameRules {
    double share = 0.6;           ///< share of an end's observations that must be bad
    unsigned fewest_partners = 2; ///< number of other nodes observed with it; with only one, either may be to blame
    std::span<const unsigned> only = {}; ///< consider only these ends; empty: all
};

/// Returns the ends to blame, the worst first, and marks all their observations, also good ones, as explained. Ignores
/// observations that are already explained. An end observed together with its own node needs no partners.
std::vector<unsigned> blame_ends(std::vector<Observation>& observations, unsigned ends, const BlameRules& rules);

} // namespace rdma_nccl
