// SPDX-License-Identifier: Apache-2.0
#include "tools/common/wall_time.h"

#include "lib/base/format.h"

#include <chrono>
#include <cstdlib>
#include <ctime>

namespace rdma_nccl {

namespace {

constexpr std::int64_t million = 1'000'000;

/// Returns the time without a zone.
std::string calendar_text(const std::tm& time, std::int64_t time_us, bool microseconds) {
    const auto fraction = time_us % million;
    return format_text("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{}", time.tm_year + 1900, time.tm_mon + 1, time.tm_mday,
                       time.tm_hour, time.tm_min, time.tm_sec,
                       microseconds ? format_text("{:06}", fraction) : format_text("{:03}", fraction / 1000));
}

} // namespace

std::int64_t wall_time_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string wall_time_text(std::int64_t time_us, bool microseconds) {
    const std::time_t seconds = time_us / million;
    std::tm local{};
    ::localtime_r(&seconds, &local);
    const auto offset = std::labs(local.tm_gmtoff / 60); // minutes
    return format_text("{}{}{:02}:{:02}", calendar_text(local, time_us, microseconds), local.tm_gmtoff < 0 ? '-' : '+',
                       offset / 60, offset % 60);
}

std::string utc_time_text(std::int64_t time_us) {
    const std::time_t seconds = time_us / million;
    std::tm utc{};
    if (time_us < 0 || ::gmtime_r(&seconds, &utc) == nullptr) {
        return "at an unknown time";
    }
    return calendar_text(utc, time_us, false) + "Z";
}

} // namespace rdma_nccl
