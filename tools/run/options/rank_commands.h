// SPDX-License-Identifier: Apache-2.0
// Several programs in one world, each for ranges of ranks.
#pragma once

#include "lib/base/result.h"
#include "tools/run/options/options.h"

#include <span>
#include <string>
#include <vector>

namespace rdma_nccl::run {

/// Splits "PROGRAM ARGS [: [--rank RANGES] [--] PROGRAM ARGS]...". `first`: the ranks of the first program; if empty,
/// it is the only program, and all words belong to it. An argument of two or more colons loses one.
Result<std::vector<RankProgram>> split_programs(std::span<const std::string> words, std::vector<RankRange> first);

/// Returns the index into `programs` of each of `count` ranks from `first_rank` on. Fails if any rank of the world has
/// two programs or none, or if a program is for a rank outside of the world; the error names these ranks.
Result<std::vector<std::size_t>> assign_programs(const std::vector<RankProgram>& programs, unsigned world_size,
                                                 unsigned first_rank, unsigned count);

} // namespace rdma_nccl::run
