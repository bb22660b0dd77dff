// SPDX-License-Identifier: Apache-2.0
// Formats a check's report. Pure functions of the results.
#pragma once

#include "lib/base/json.h"
#include "tools/check/facts.h"
#include "tools/check/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl::check {

/// The content of all formats.
struct Report {
    std::string host;
    std::int64_t time_us = 0;
    double seconds = 0; ///< duration of the check
    Findings results;
    const Facts* facts = nullptr; ///< nullptr: the check did not get that far
};

/// Returns text for users: a line about the node, then the problems with hints. With `all`, also the other results.
std::string as_text(const Report& report, bool all, bool colours);

/// Returns JSON with the keys of rdma-nccl-check(1), section "JSON".
Json as_json(const Report& report);
/// Returns the JSON Schema of as_json().
Json schema();

/// Returns one line, "RDMA CRITICAL - ... | fail=1 ...", like Nagios plugins (monitoring-plugins.org, development
/// guidelines).
std::string as_nagios(const Report& report);

/// Returns the worst findings on one line of at most `most` bytes: "port.count: 7 ports for NCCL, 8 expected; ...".
std::string worst_in_short(const Report& report, std::size_t most);

/// A file of as_prometheus() starts with this.
inline constexpr std::string_view metrics_mark = "# HELP rdma_nccl_";

/// Returns text for the textfile collector of Prometheus' node_exporter.
std::string as_prometheus(const Report& report);

} // namespace rdma_nccl::check
