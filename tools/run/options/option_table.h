// SPDX-License-Identifier: Apache-2.0
// The options of `rdma-nccl run`, one entry each: those of torchrun (torch/distributed/run.py, get_args_parser, 1.13 to
// 2.13) and those that torchrun lacks.
#pragma once

#include "lib/base/result.h"
#include "tools/run/options/options.h"

#include <chrono>
#include <map>
#include <set>
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

// Parsers of values that are more than a word. They accept any text; their errors describe valid values, but do not
// name the option.

/// Parses as torchrun's Std.from_str does (torch/distributed/elastic/multiprocessing/api.py): "0" none, "1" stdout, "2"
/// stderr, "3" both, for all local ranks; or "0:1,12:3" for some, and none for the others. torchrun accepts only ranks
/// of one digit.
Result<RankStreams> parse_streams(std::string_view text);

/// Parses local ranks like "0,2-3".
Result<std::set<unsigned>> parse_local_ranks(std::string_view text);

/// Parses ranges of ranks like "0-7,12". Returns them in ascending order; fails if a rank is named twice.
Result<std::vector<RankRange>> parse_rank_ranges(std::string_view text);

/// Parses a list of signals like "SIGTERM,USR1": names, with or without SIG, or numbers. Fails for SIGKILL and SIGSTOP,
/// which cannot be caught.
Result<std::set<int>> parse_signals(std::string_view text);
/// Parses a map of signals like "TERM=USR1,USR2=TERM". Fails if a signal is mapped twice.
Result<std::map<int, int>> parse_signal_map(std::string_view text);

/// Parses a number of seconds like "0.5", at most 1e6.
Result<std::chrono::milliseconds> parse_seconds(std::string_view text);
Result<std::chrono::seconds> parse_whole_seconds(std::string_view text);

/// Parses "HOST", "HOST:PORT", "[IPV6]:PORT", or an IPv6 address alone. Leaves `source` empty.
Result<RdzvEndpoint> parse_endpoint(std::string_view text);

/// Checks torchrun's "KEY=VALUE,..." without storing it.
Result<void> check_pairs(std::string_view text);

} // namespace rdma_nccl::run
