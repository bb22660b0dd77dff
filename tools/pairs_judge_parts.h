// SPDX-License-Identifier: Apache-2.0
// The parts of judge_pairs(): each adds its faults and marks the results that they are about.
#pragma once

#include "tools/pairs_blame.h"
#include "tools/pairs_judge.h"
#include "tools/pairs_samples.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What the parts work on.
struct PairsJudging {
    const PairsReport& report;
    JudgeRules rules;
    std::vector<std::uint32_t> results; ///< that count
    PairSamples samples;
    bool can_blame = false; ///< four nodes or more
    PairsVerdict verdict;
    std::vector<double> badness; ///< for each fault, to sort those of a kind: the smaller the worse

    void add(PairsFault fault, double share);
};

/// The ports of all nodes by number.
class PairPorts {
public:
    explicit PairPorts(const PairsReport& report);

    [[nodiscard]] unsigned count() const { return first.back(); }
    [[nodiscard]] unsigned number(unsigned node, unsigned rail) const { return first[node] + rail; }
    [[nodiscard]] unsigned node(unsigned number) const;
    [[nodiscard]] unsigned rail(unsigned number) const { return number - first[node(number)]; }

private:
    std::vector<unsigned> first; ///< port of each node; behind the last: how many there are
};

/// What is to blame at one node: all of its measured rails (then `rails` is empty), or some.
struct BlamedNode {
    unsigned node = 0;
    std::vector<unsigned> rails;
};
/// Ports to blame, by node. `seen`: the ports that were measured.
std::vector<BlamedNode> by_node(const PairPorts& ports, const std::set<unsigned>& blamed,
                                const std::set<unsigned>& seen);

/// A pair and the results of it that are bad.
struct BadPair {
    unsigned a = 0, b = 0; ///< a <= b
    std::vector<std::uint32_t> results;
    bool all = false; ///< of the results that count, and more than one
};
/// Bad results, given in any order, by pair of nodes.
std::vector<BadPair> by_pair(const PairsJudging& judging, const std::set<std::uint32_t>& bad);

void judge_failures(PairsJudging& judging);
void judge_data(PairsJudging& judging);
void judge_speed(PairsJudging& judging);
/// After judge_speed(): only of what is good one way after the other.
void judge_duplex(PairsJudging& judging);
/// After the others: who is accused already is not accused again for the latency.
void judge_latency(PairsJudging& judging);

} // namespace rdma_nccl
