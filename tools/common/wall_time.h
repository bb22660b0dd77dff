// SPDX-License-Identifier: Apache-2.0
// Time of day for the ranks' lines, events and reports.
#pragma once

#include <cstdint>
#include <string>

namespace rdma_nccl {

/// Returns microseconds since 1970.
std::int64_t wall_time_us();

/// Returns a time in ISO 8601 in the local time zone: "2026-11-22T10:00:00.123+00:00", with six digits if
/// `microseconds` is true. For messages about this node.
std::string wall_time_text(std::int64_t time_us, bool microseconds = false);

/// Returns a time in ISO 8601 in UTC: "2026-11-22T10:00:00.123Z", or "at an unknown time" if it is outside of the
/// calendar. For times from other nodes, which may be in another zone.
std::string utc_time_text(std::int64_t time_us);

} // namespace rdma_nccl
