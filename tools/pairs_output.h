// SPDX-License-Identifier: Apache-2.0
// A report of `rdma-nccl pairs` in its forms. Each is a pure function; the callers print.
#pragma once

#include "lib/json.h"
#include "tools/pairs_judge.h"
#include "tools/pairs_values.h"

#include <string>

namespace rdma_nccl {

struct PairsTextOptions {
    unsigned columns = 80; ///< of the terminal
    bool colours = false;
    bool utf8 = true; ///< blocks for many nodes; else digits
    unsigned most_worst = 10;
};

/// Heat table node x node (row sends, column receives), the worst pairs, faults, the suspects' host list.
std::string pairs_text(const PairsReport& report, const PairsVerdict& verdict, const PairsTextOptions& options);
/// {"schema": 1, ...}
Json pairs_json(const PairsReport& report, const PairsVerdict& verdict);
/// JSON Schema of it.
Json pairs_schema();
/// One line a direction, with a header (RFC 4180).
std::string pairs_csv(const PairsReport& report, const PairsVerdict& verdict);
/// One page that needs nothing else: heat map, distribution, rails; light and dark.
std::string pairs_html(const PairsReport& report, const PairsVerdict& verdict);

} // namespace rdma_nccl
