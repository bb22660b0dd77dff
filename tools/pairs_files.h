// SPDX-License-Identifier: Apache-2.0
// Files that results go to: never half of one, and never over what is not ours.
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// Whether write_result() would do, as far as can be told before: the directory is there and may be written, and the
/// file is not there, empty, or an earlier result of `rdma-nccl pairs` or `bench`.
Result<void> check_result_file(const std::string& path);

/// What of --json, --csv and --html does not go together; empty: all does. All members of a measurement find the same,
/// and end without waiting for each other.
std::string conflict_of_outputs(bool json, const std::string& csv, const std::string& html);

/// What is wrong with these paths is printed before hours of measuring, not after. Empty ones and "-" are no files.
bool can_write_results(const std::string& csv, const std::string& html);

/// All of it or nothing.
Result<void> write_result(const std::string& path, std::string_view text);

} // namespace rdma_nccl
