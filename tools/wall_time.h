// SPDX-License-Identifier: Apache-2.0
// Time of day, as the ranks' lines, events and reports carry it.
#pragma once

#include <cstdint>
#include <string>

namespace rdma_nccl {

/// Microseconds since 1970.
std::int64_t wall_time_us();

/// ISO 8601 in the local time zone: "2026-11-22T10:00:00.123+00:00", with six digits when `microseconds`. For what
/// this node says of itself.
std::string wall_time_text(std::int64_t time_us, bool microseconds = false);

/// The same in UTC: "2026-11-22T10:00:00.123Z"; of a time that no calendar has: "at an unknown time". For what another
/// node, perhaps of another zone, may have said.
std::string utc_time_text(std::int64_t time_us);

} // namespace rdma_nccl
