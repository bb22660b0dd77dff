// SPDX-License-Identifier: Apache-2.0
// Formats a report of `rdma-nccl pairs`. The functions are pure; callers print.
#pragma once

#include "lib/base/json.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/model.h"

#include <string>

namespace rdma_nccl::pairs {

struct TextOptions {
    unsigned columns = 80; ///< of the terminal
    bool colours = false;
    bool utf8 = true; ///< use block characters for many nodes, else digits
    unsigned most_worst = 10;
};

/// Returns the node x node heat table (rows send, columns receive), the worst pairs, faults, and the suspects' host
/// list.
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

} // namespace rdma_nccl::pairs
