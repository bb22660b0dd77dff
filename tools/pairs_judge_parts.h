// SPDX-License-Identifier: Apache-2.0
// The parts of judge_pairs(): each adds its faults and marks the results that they are about.
#pragma once

#include "tools/pairs_blame.h"
#include "tools/pairs_judge.h"
#include "tools/pairs_samples.h"

#include <functional>
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

/// Whether a rail of that node does; `rail` absent: any.
bool takes_part(const Pairing& pairing, unsigned node, std::optional<unsigned> rail);

/// For a node all of whose measured rails are to blame (then without a rail), or for one of its rails.
using AccuseEnd = std::function<void(unsigned node, std::optional<unsigned> rail)>;
/// Ports to blame, by node. `seen`: the ports that were measured.
void accuse_ends(const PairPorts& ports, const std::set<unsigned>& blamed, const std::set<unsigned>& seen,
                 const AccuseEnd& accuse);

/// For a pair of nodes all of whose results that count are bad, and more than one; else for one result, of its rails.
using AccusePair = std::function<void(const std::vector<std::uint32_t>& results, bool with_rails)>;
/// Bad results by pair of nodes.
void accuse_pairs(const PairsJudging& judging, const std::set<std::uint32_t>& bad, const AccusePair& accuse);
/// Of such a pair, or of one node with itself.
PairsFault pair_fault(PairsFaultKind kind, const Pairing& pairing, bool with_rails, std::string text);

/// Results that are good or bad as a whole.
class ObservedResults {
public:
    explicit ObservedResults(PairsJudging& judging) : judging_(judging), ports_(judging.report) {}

    void add(std::uint32_t result, bool bad);
    /// Of the one that was added as number i.
    [[nodiscard]] bool is_bad(std::size_t i) const { return observations_[i].bad; }
    /// Where several of one port or node are bad, it is to blame; else the pair.
    void accuse(const AccuseEnd& end, const AccusePair& pair);

private:
    PairsJudging& judging_;
    PairPorts ports_;
    std::vector<Observation> observations_;
    std::vector<std::uint32_t> results_; ///< of the observations
    std::set<unsigned> seen_;            ///< ports
};

void judge_failures(PairsJudging& judging);
void judge_data(PairsJudging& judging);
void judge_speed(PairsJudging& judging);
/// After judge_speed(): only of what is good one way after the other.
void judge_duplex(PairsJudging& judging);
/// After the others: who is accused already is not accused again for the latency.
void judge_latency(PairsJudging& judging);

} // namespace rdma_nccl
