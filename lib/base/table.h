// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

using TableRow = std::vector<std::string>;

/// Returns the rows as lines, with columns aligned to the left and two blanks between them. Lines do not end in blanks.
/// `indent` starts each line.
std::string aligned_table(const std::vector<TableRow>& rows, std::string_view indent = "");

} // namespace rdma_nccl
