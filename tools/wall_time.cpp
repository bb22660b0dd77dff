// SPDX-License-Identifier: Apache-2.0
#include "tools/wall_time.h"

#include "lib/format.h"

#include <chrono>
#include <cstdlib>
#include <ctime>

namespace rdma_nccl {

std::int64_t wall_time_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string wall_time_text(std::int64_t time_us, bool microseconds) {
    const std::time_t seconds = time_us / 1'000'000;
    const auto fraction = time_us % 1'000'000;
    std::tm local{};
    ::localtime_r(&seconds, &local);
    const auto offset = std::labs(local.tm_gmtoff / 60); // minutes
    return format_text("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{}{}{:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                       local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                       microseconds ? format_text("{:06}", fraction) : format_text("{:03}", fraction / 1000),
                       local.tm_gmtoff < 0 ? '-' : '+', offset / 60, offset % 60);
}

} // namespace rdma_nccl
