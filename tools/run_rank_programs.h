// SPDX-License-Identifier: Apache-2.0
// Several programs in one world, by ranges of ranks.
#pragma once

#include "lib/result.h"
#include "tools/run_options.h"

#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// "PROGRAM ARGS [: [--rank RANGES] [--] PROGRAM ARGS]...". `first`: the ranks of the first program; where there are
/// none, that is the only one and all words are its own. An argument of two or more colons loses one.
Result<std::vector<RankProgram>> split_programs(std::span<const std::string> words, std::vector<RankRange> first);

/// Which of `programs` each of `count` ranks from `first_rank` on runs. Fails where, in the whole world, a rank has two
/// programs or none, or a program is for a rank that is not there, and names these ranks.
Result<std::vector<std::size_t>> assign_programs(const std::vector<RankProgram>& programs, unsigned world_size,
                                                 unsigned first_rank, unsigned count);

} // namespace rdma_nccl
