// SPDX-License-Identifier: Apache-2.0
// A sample of `rdma-nccl top` as text: pure functions.
#pragma once

#include "tools/top_sample.h"

#include <cstddef>
#include <string>
#include <vector>

namespace rdma_nccl {

struct ViewSize {
    std::size_t columns = 0; ///< 0: as wide as it is
    std::size_t lines = 0;   ///< 0: as many as there are
};

/// The whole table, in printable ASCII. In a small window the less important columns are left out, then rows in which
/// nothing moves, then what does not fit.
std::vector<std::string> top_table(const TopSample& sample, const ViewSize& size);

/// The line above all top_rows().
std::string top_heading();
/// A line for each port and interface and two for all, with the time in each: for a pipe or a log.
std::vector<std::string> top_rows(const TopSample& sample);

/// One object in one line, with a schema version.
std::string top_json(const TopSample& sample);

/// "12.34", "123", "<0.01", "0"
std::string gbps_text(double gbps);

} // namespace rdma_nccl
