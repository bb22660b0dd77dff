// SPDX-License-Identifier: Apache-2.0
// Converts a sample of `rdma-nccl top` to text. Pure functions.
#pragma once

#include "tools/top/sample.h"

#include <cstddef>
#include <string>
#include <vector>

namespace rdma_nccl {

struct ViewSize {
    std::size_t columns = 0; ///< 0: unlimited
    std::size_t lines = 0;   ///< 0: unlimited
};

/// Returns the table in printable ASCII. In a small window, it leaves out less important columns, then idle rows, then
/// everything that does not fit.
std::vector<std::string> top_table(const TopSample& sample, const ViewSize& size);

/// Returns the line above all top_rows().
std::string top_heading();
/// Returns two lines for the totals and one for each port and interface, each with the time, for a pipe or a log.
std::vector<std::string> top_rows(const TopSample& sample);

/// Returns one JSON object on one line, with a schema version.
std::string top_json(const TopSample& sample);

/// Returns a rate as text like "12.34", "123", "<0.01" or "0".
std::string gbps_text(double gbps);

} // namespace rdma_nccl
