// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

using TableRow = std::vector<std::string>;

/// Rows as lines, columns aligned to the left with two blanks between; no blanks at the ends of lines. `indent` stands
/// before each line.
std::string aligned_table(const std::vector<TableRow>& rows, std::string_view indent = "");

} // namespace rdma_nccl
