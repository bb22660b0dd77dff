// SPDX-License-Identifier: Apache-2.0
// Time of day as the ranks' lines and events carry it.
#pragma once

#include <cstdint>
#include <string>

namespace rdma_nccl {

/// Microseconds since 1970.
std::int64_t wall_time_us();

/// ISO 8601 in the local time zone: "2026-11-22T10:00:00.123+00:00", with six digits when `microseconds`.
std::string wall_time_text(std::int64_t time_us, bool microseconds = false);

} // namespace rdma_nccl
