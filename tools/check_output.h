// SPDX-License-Identifier: Apache-2.0
// The forms of a check's answer. Pure functions of the results.
#pragma once

#include "lib/json.h"
#include "tools/check_facts.h"
#include "tools/check_result.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// All that a form shows.
struct CheckReport {
    std::string host;
    std::int64_t time_us = 0;
    double seconds = 0; ///< that the check took
    CheckResults results;
    const CheckFacts* facts = nullptr; ///< nullptr: it did not get that far
};

/// For people: a line on the node, then what is not good, with what to do; `all`: the rest too.
std::string check_text(const CheckReport& report, bool all, bool colours);

/// Facts of section "JSON" in rdma-nccl-check(1).
Json check_json(const CheckReport& report);
/// JSON Schema of it.
Json check_schema();

/// One line, "RDMA CRITICAL - ... | fail=1 ...", as Nagios' plugins (monitoring-plugins.org, development guidelines).
std::string check_nagios(const CheckReport& report);

/// The worst findings in one line of at most `most` bytes: "port.count: 7 ports for NCCL, 8 expected; ...".
std::string worst_in_short(const CheckReport& report, std::size_t most);

/// How such a file starts.
inline constexpr std::string_view metrics_mark = "# HELP rdma_nccl_";

/// For the text file collector of Prometheus' node_exporter.
std::string check_prometheus(const CheckReport& report);

} // namespace rdma_nccl
