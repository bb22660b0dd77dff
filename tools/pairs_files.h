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

/// All of it or nothing.
Result<void> write_result(const std::string& path, std::string_view text);

} // namespace rdma_nccl
