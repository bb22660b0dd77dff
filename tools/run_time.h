// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace rdma_nccl {

/// Microseconds since 1970 as "2026-11-22T10:00:00.123Z"; of a time that no calendar has: "at an unknown time".
std::string time_text(std::int64_t microseconds);

} // namespace rdma_nccl
