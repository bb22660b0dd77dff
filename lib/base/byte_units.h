// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rdma_nccl {

/// Formats a byte count in powers of 1000, as link rates are given, with three or four digits: "0 B", "12.3 kB",
/// "412 MB", "1.04 TB".
std::string bytes_text(std::uint64_t bytes);

} // namespace rdma_nccl
