// SPDX-License-Identifier: Apache-2.0
// The values of options of `rdma-nccl run` that are more than a word. Any text may come in; the errors say what is
// wanted, not of which option.
#pragma once

#include "lib/result.h"
#include "tools/run_options.h"

#include <chrono>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// torchrun's Std.from_str (torch/distributed/elastic/multiprocessing/api.py): "0" none, "1" stdout, "2" stderr,
/// "3" both, for all local ranks; or "0:1,12:3" for some, none for the others. There, ranks have one digit.
Result<RankStreams> parse_streams(std::string_view text);

/// "0,2-3": local ranks.
Result<std::set<unsigned>> parse_local_ranks(std::string_view text);

/// "0-7,12": ranges of ranks, none twice, in the order of the ranks.
Result<std::vector<RankRange>> parse_rank_ranges(std::string_view text);

/// A signal by its name, with SIG or without, or by its number; SIGKILL and SIGSTOP, which nobody can catch, are none.
Result<int> parse_signal(std::string_view text);
/// "SIGTERM,USR1"
Result<std::set<int>> parse_signals(std::string_view text);
/// "TERM=USR1,USR2=TERM": what a signal becomes. Nothing is said twice of the same one.
Result<std::map<int, int>> parse_signal_map(std::string_view text);

/// "0.5": seconds, at most 1e6.
Result<std::chrono::milliseconds> parse_seconds(std::string_view text);
Result<std::chrono::seconds> parse_whole_seconds(std::string_view text);

/// "HOST", "HOST:PORT", "[IPV6]:PORT", or an IPv6 address alone. `source` is left empty.
Result<RdzvEndpoint> parse_endpoint(std::string_view text);

/// torchrun's "KEY=VALUE,...": only looked at.
Result<void> check_pairs(std::string_view text);

/// Whether a prefix of lines has no other {names} than those that RankOutput fills in.
Result<void> check_prefix(std::string_view text);
/// torchrun's TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE ("${role_name}${rank}: ") in our words.
std::string prefix_of_template(std::string_view text);

} // namespace rdma_nccl
