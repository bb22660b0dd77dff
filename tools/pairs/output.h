// SPDX-License-Identifier: Apache-2.0
// Formats a report of `rdma-nccl pairs`. The functions are pure; callers print.
#pragma once

#include "lib/base/json.h"
#include "tools/pairs/judge.h"
#include "tools/pairs/model.h"

#include <string>

namespace rdma_nccl {

struct PairsTextOptions {
    unsigned columns = 80; ///< of the terminal
    bool colours = false;
    bool utf8 = true; ///< use block characters for many nodes, else digits
    unsigned most_worst = 10;
};

/// Returns the node x node heat table (rows send, columns receive), the worst pairs, faults, and the suspects' host
/// list.
std::string pairs_text(const PairsReport& report, const PairsVerdict& verdict, const PairsTextOptions& options);
/// Returns the heat table alone: Gb/s if the columns are wide enough, else % of the median, else one block per cell,
/// else one block for several nodes; with a title and, if needed, a legend.
std::string heat_table(const PairsReport& report, const PairsVerdict& verdict, const PairsTextOptions& options);

/// Returns {"schema": 1, ...}.
Json pairs_json(const PairsReport& report, const PairsVerdict& verdict);
/// Returns the JSON Schema of pairs_json().
Json pairs_schema();
/// Returns one line per direction, after a header line (RFC 4180).
std::string pairs_csv(const PairsReport& report, const PairsVerdict& verdict);
/// Returns one self-contained page: heat map, distribution, rails; light and dark.
std::string pairs_html(const PairsReport& report, const PairsVerdict& verdict);

} // namespace rdma_nccl
