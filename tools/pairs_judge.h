// SPDX-License-Identifier: Apache-2.0
// Which node, link or direction is slow: a pure function of what was measured (facts of the method: node score = median
// over its pairs; slow below 0.9 of the median of all or 3 scaled MADs; one side is blamed only with four nodes or
// more).
#pragma once

#include "tools/pairs_values.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

struct JudgeRules {
    double share_of_median = 0.9; ///< below it: slow
    double deviations = 3;        ///< of 1.4826 MAD below the median: slow, too
    double share_of_pairs = 0.6;  ///< of a node's pairs that must be slow for the node to be
    double floor_share = 0.9;     ///< of the lower link rate of the two ports; 0: no floor (software RDMA has none)
    double duplex_share = 0.75;   ///< both ways at once, below it: slow (and below share_of_median)
    double latency_factor = 2;    ///< above the median latency: slow
};

enum class PairsFaultKind { Node, Rail, Link, Direction, AllSlow, Failed, WrongData, Latency, Duplex };

/// Something to be told, the worst first.
struct PairsFault {
    PairsFaultKind kind = PairsFaultKind::Node;
    std::vector<unsigned> nodes;  ///< whose fault it is, or between which it lies
    std::optional<unsigned> rail; ///< absent: on all rails
    std::string text;             ///< "n07 is slow: 183 Gb/s where the others have 388 (47 %), on 5 of 5 pairs; ..."
};

enum class PairState { Unknown, Good, Slow, Failed };

struct NodeScore {
    std::optional<double> sends_gbps, receives_gbps; ///< medians over its pairs
    std::optional<double> latency_us;
    unsigned pairs = 0, slow = 0, failed = 0;
    PairState state = PairState::Unknown;
};

struct PairsVerdict {
    std::optional<double> median_gbps, mad_gbps; ///< of all directions measured
    std::optional<double> median_latency_us;
    std::vector<NodeScore> nodes;   ///< as in the report
    std::vector<PairState> results; ///< as in the report; what was measured again later is Unknown
    std::vector<PairsFault> faults;
    std::vector<unsigned> suspects; ///< nodes; for a Slurm host list
    std::vector<std::string> notes; ///< "software RDMA: functional test only", "two nodes: no side can be blamed"
    int exit_code = 0;              ///< 0 good, 1 slow, 2 failed or wrong data, 3 nothing was measured
};

PairsVerdict judge_pairs(const PairsReport& report, const JudgeRules& rules);

/// For retest_pairs(): who was in a slow or failed pair, and who only in good ones.
struct RetestNodes {
    std::vector<unsigned> suspects, good;
};
RetestNodes retest_nodes(const PairsReport& report, const PairsVerdict& verdict);

} // namespace rdma_nccl
