// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/base/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// Writes the whole file or nothing, even if the power fails: writes a new file in the same directory and renames it.
/// `mode`: of the new file.
Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode);

} // namespace rdma_nccl
