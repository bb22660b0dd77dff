// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/result.h"

#include <string>
#include <string_view>

namespace rdma_nccl {

/// As a new file of that name in a directory; a file that is there already stays as it is, and that is an error, too.
/// Nobody sees half of it.
Result<void> save_verdict(const std::string& directory, const std::string& name, std::string_view text);

} // namespace rdma_nccl
