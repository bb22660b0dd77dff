// SPDX-License-Identifier: Apache-2.0
// Judges which node, link or direction is slow; a pure function of the measurements. A node's score is the median over
// its pairs. It is slow below 0.9 of the median of all, or 3 scaled MADs below it. One side is blamed only with four
// nodes or more.
#pragma once

#include "tools/pairs/model.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::pairs {

struct JudgeRules {
    double share_of_median = 0.9; ///< below this share: slow
    double deviations = 3;        ///< more than this many times 1.4826 MAD below the median: also slow
    double share_of_pairs = 0.6;  ///< share of a node's pairs that must be slow for the node to be slow
    double floor_share = 0.9;     ///< share of the lower link rate of the two ports; 0: no floor (software RDMA)
    double duplex_share = 0.75;   ///< both ways at once below this share (and below share_of_median): slow
    double latency_factor = 2;    ///< above this multiple of the median latency: slow
};

enum class FaultKind { Node, Rail, Link, Direction, AllSlow, Failed, WrongData, Latency, Duplex };

/// Returns whether it is worse than slow.
bool is_critical(FaultKind kind);

/// A finding; in a verdict the worst come first.
struct Fault {
    FaultKind kind = FaultKind::Node;
    std::vector<unsigned> nodes;  ///< nodes at fault, or between which the fault lies
    std::optional<unsigned> rail; ///< absent: all rails
    std::string text;             ///< "n07 is slow: 183 Gb/s where the others have 388 (47 %), on 5 of 5 pairs; ..."
    double badness = 0;           ///< for the order of faults of the same kind; lower is worse
};

enum class ResultState { Unknown, Good, Slow, Failed };

struct NodeScore {
    std::optional<double> sends_gbps, receives_gbps; ///< medians over its pairs
    std::optional<double> latency_us;
    unsigned pairs = 0, slow = 0, failed = 0;
    ResultState state = ResultState::Unknown;
};

struct Verdict {
    std::optional<double> median_gbps, mad_gbps; ///< of all directions measured
    std::optional<double> median_latency_us;
    std::vector<NodeScore> nodes;     ///< as in the report
    std::vector<ResultState> results; ///< as in the report; Unknown if it was measured again later
    std::vector<Fault> faults;
    std::vector<unsigned> suspects; ///< nodes; for a Slurm host list
    std::vector<std::string> notes; ///< "software RDMA: functional test only", "two nodes: no side can be blamed"
    int exit_code = 0;              ///< 0 good, 1 slow, 2 failed or wrong data, 3 nothing was measured
};

Verdict judge(const Report& report, const JudgeRules& rules);

/// For retest_pairs(): nodes in a slow or failed pair, and nodes only in good ones.
struct RetestNodes {
    std::vector<unsigned> suspects, good;
};
RetestNodes retest_nodes(const Report& report, const Verdict& verdict);

} // namespace rdma_nccl::pairs
