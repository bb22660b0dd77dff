// SPDX-License-Identifier: Apache-2.0
// Words that the forms of a report of `rdma-nccl pairs` have in common.
#pragma once

#include "tools/pairs_judge.h"
#include "tools/pairs_values.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

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
