// SPDX-License-Identifier: Apache-2.0
// The options of `rdma-nccl run`, one entry each: those of torchrun (torch/distributed/run.py, get_args_parser, 1.13 to
// 2.13) and those that torchrun lacks.
#pragma once

#include "lib/base/result.h"
#include "tools/run/options/options.h"

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::run {

/// An option as given by the user.
struct GivenOption {
    std::string name; ///< the variable's name for an option from PET_*, like "PET_TEE", else like "--tee"
    std::string text; ///< the value; of a flag: "1", or the variable's value
};

/// The destination of the options.
struct OptionTarget {
    Options& options;
    std::vector<std::string> meaningless; ///< names of options without a meaning in a fixed world
};

struct OptionEntry {
    enum class Origin {
        Own,
        Torchrun, ///< plan_world() reads its PET_*
        Pet,      ///< torchrun's too; PET_* is read here
    };

    std::string_view name;  ///< without the dashes
    std::string_view type;  ///< of the value; empty: a flag; "[...]": an optional value, only as --name=VALUE
    std::string_view group; ///< heading in the help; empty: not in the help
    std::string_view help;
    Origin origin = Origin::Own;
    Result<void> (*store)(OptionTarget& target, const GivenOption& given) = nullptr;
    std::string_view letter = {}; ///< "r": -r is the same option

    [[nodiscard]] std::string pet_variable() const;
};

std::span<const OptionEntry> option_table();

// Parsers of values. They accept any text; their errors describe valid values, but do not name the option.

/// Parses ranges of ranks like "0-7,12". Returns them in ascending order; fails if a rank is named twice.
Result<std::vector<RankRange>> parse_rank_ranges(std::string_view text);

/// Parses a number of seconds like "0.5", at most 1e6.
Result<std::chrono::milliseconds> parse_seconds(std::string_view text);

} // namespace rdma_nccl::run
