// SPDX-License-Identifier: Apache-2.0
// What is told of a fault: what, where, what to do.
#pragma once

#include "tools/pairs_judge.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// What the words of a slow node, rail, direction or link are made from. Speeds are medians.
struct SlowFacts {
    double gbps = 0, normal_gbps = 0, share = 0;
    unsigned slow_pairs = 0, pairs = 0;
    std::optional<double> rate_gbps;       ///< of the link, when it is less than elsewhere
    std::optional<double> usual_rate_gbps; ///< with it
    std::vector<std::string> notes;        ///< of the results, each once
};

/// Three digits, or as many as are before the point: "389", "38.9", "3.89".
std::string short_gbps(double gbps);
/// "47 %".
std::string pair_percent_text(double share);
/// The node's name, safe for terminals.
std::string pair_node_name(const PairsReport& report, unsigned node);
/// "mlx5_1:1".
std::string pair_rail_name(const PairsReport& report, unsigned node, unsigned rail);
/// "n03 mlx5_1:1"; without a rail the node alone.
std::string pair_end_name(const PairsReport& report, unsigned node, std::optional<unsigned> rail);
/// "n03 mlx5_1:1 and n07 mlx5_1:1"; without rails the nodes alone.
std::string pair_link_name(const PairsReport& report, const Pairing& pairing, bool with_rails,
                           std::string_view between = " and ");

enum class SlowWay { Both, Sends, Receives };

/// Of a node (rail absent) or a rail of it.
std::string slow_end_text(const PairsReport& report, unsigned node, std::optional<unsigned> rail, SlowWay way,
                          const SlowFacts& facts);
/// Of one pair. Sends: only from a to b. Without `others_good` the pair is all that can be told.
std::string slow_link_text(const PairsReport& report, const Pairing& pairing, bool with_rails, SlowWay way,
                           bool others_good, const SlowFacts& facts);
/// Of what `where` names: slow when both ways are used at once. Speeds are sums of both ways.
std::string duplex_text(std::string_view where, const SlowFacts& facts);
std::string all_slow_text(double gbps, double rate_gbps, double floor_share);

// --- Words that the forms of a report have in common ---

/// "unknown", "good", "slow", "failed"
std::string_view name_of(PairState state);
/// "node", "rail", "link", "direction", "all slow", "failed", "wrong data", "latency"
std::string_view name_of(PairsFaultKind kind);
/// "good", "slow", "failed", "nothing measured"
std::string_view verdict_word(const PairsVerdict& verdict);
/// "n[01-03,07]" as Slurm's options take it; empty without suspects.
std::string suspects_hostlist(const PairsReport& report, const PairsVerdict& verdict);
/// "n01 mlx5_1:1"
std::string end_text(const PairsReport& report, unsigned node, unsigned rail);

} // namespace rdma_nccl
