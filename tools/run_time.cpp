// SPDX-License-Identifier: Apache-2.0
#include "tools/run_time.h"

#include "lib/format.h"

#include <ctime>

namespace rdma_nccl {

std::string time_text(std::int64_t microseconds) {
    constexpr std::int64_t million = 1000000;
    const std::time_t seconds = microseconds / million;
    std::tm parts{};
    if (microseconds < 0 || ::gmtime_r(&seconds, &parts) == nullptr) {
        return "at an unknown time";
    }
    return format_text("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, microseconds % million / 1000);
}

} // namespace rdma_nccl
