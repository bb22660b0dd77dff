// SPDX-License-Identifier: Apache-2.0
// Formats a report of `rdma-nccl pairs`, and describes its faults. The functions are pure; callers print.
#pragma once

#include "lib/base/json.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/model.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::pairs {

struct TextOptions {
    unsigned columns = 80; ///< of the terminal
    bool colours = false;
    bool utf8 = true; ///< use block characters for many nodes, else digits
    unsigned most_worst = 10;
};

/// Returns the heat table (rows send, columns receive), the worst pairs, faults, and the suspects' host list.
std::string format_plain(const Report& report, const Verdict& verdict, const TextOptions& options);
/// Returns the heat table alone: Gb/s if the columns are wide enough, else % of the median, else one block per cell,
/// else one block for several nodes; with a title and, if needed, a legend.
std::string heat_table(const Report& report, const Verdict& verdict, const TextOptions& options);

/// Returns {"schema": 1, ...}.
Json format_json(const Report& report, const Verdict& verdict);
/// Returns the JSON Schema of format_json().
Json json_schema();
/// Returns one line per direction, after a header line (RFC 4180).
std::string format_csv(const Report& report, const Verdict& verdict);
/// Returns one self-contained page: heat map, distribution, rails; light and dark.
std::string format_html(const Report& report, const Verdict& verdict);

// --- Texts about faults: what, where, what to do ---

/// Facts for the text about a slow node, rail, direction or link. Speeds are medians.
struct SlowFacts {
    double gbps = 0, normal_gbps = 0, share = 0;
    unsigned slow_pairs = 0, pairs = 0;
    std::optional<double> rate_gbps{};       ///< of the link, if it is lower than elsewhere
    std::optional<double> usual_rate_gbps{}; ///< set together with rate_gbps
    std::vector<std::string> notes;          ///< of the results, each once
};

/// Formats three digits, or all those before the point: "389", "38.9", "3.89".
std::string short_gbps(double gbps);
/// Returns "47 %".
std::string percent_text(double share);
/// Returns "n03 mlx5_1:1"; without a rail only the node. Safe for terminals.
std::string name_of_end(const Report& report, unsigned node, std::optional<unsigned> rail);
/// Returns "n03 mlx5_1:1 and n07 mlx5_1:1"; without rails only the nodes.
std::string name_of_link(const Report& report, const Pairing& pairing, bool with_rails,
                         std::string_view between = " and ");

enum class SlowWay { Both, Sends, Receives };

/// Describes a slow node (rail absent) or rail.
std::string slow_end_text(const Report& report, unsigned node, std::optional<unsigned> rail, SlowWay way,
                          const SlowFacts& facts);
/// Describes a slow pair. Sends: only from a to b. Without `others_good` the text cannot say more than the pair.
std::string slow_link_text(const Report& report, const Pairing& pairing, bool with_rails, SlowWay way, bool others_good,
                           const SlowFacts& facts);
/// Describes `where` as slow when both directions are used at once. Speeds are sums of both.
std::string duplex_text(std::string_view where, const SlowFacts& facts);
std::string all_slow_text(double gbps, double rate_gbps, double floor_share);

// --- Words that the formats of a report share ---

/// Returns "unknown", "good", "slow", "failed".
std::string_view name_of(ResultState state);
/// Returns "node", "rail", "link", "direction", "all slow", "failed", "wrong data", "latency", "both ways".
std::string_view name_of(FaultKind kind);
/// Returns "good", "slow", "failed", "nothing measured".
std::string_view verdict_word(const Verdict& verdict);
/// Returns "n[01-03,07]", as Slurm's options take it; empty without suspects.
std::string suspects_hostlist(const Report& report, const Verdict& verdict);

} // namespace rdma_nccl::pairs
