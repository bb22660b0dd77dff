// SPDX-License-Identifier: Apache-2.0
// The variables with which PyTorch's flight recorder records, and writes a file for each rank when a collective times
// out (torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp, 2.2 to 2.13).
#pragma once

#include "lib/flight_recorder/dump.h"
#include "lib/sys/environment.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl::flight_recorder {

/// Of the files' names; the rank follows.
inline constexpr std::string_view file_prefix = "nccl_trace_rank_";

/// Returns the names and values to set, for files in `directory`, which must exist: PyTorch does not create it. A value
/// of the user's stays; where PyTorch has two names for one thing, the other name gets the user's value.
std::vector<std::pair<std::string, std::string>> recorder_variables(const Environment& environment,
                                                                    std::string_view directory);

/// Reads the files of a directory that belongs to this user, for the ranks from `first` on. A file that is absent or
/// that cannot be read is left out; the latter gives a sentence in `problems`.
std::vector<Dump> read_dumps(const std::string& directory, std::uint32_t first, std::uint32_t count,
                             std::vector<std::string>& problems);

} // namespace rdma_nccl::flight_recorder
