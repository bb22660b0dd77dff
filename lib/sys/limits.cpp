// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/limits.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <string_view>
#include <sys/resource.h>
#include <sys/statvfs.h>

namespace rdma_nccl {

namespace {

std::optional<std::uint64_t> predicted(int resource, std::string_view propagated, const Environment& environment) {
    rlimit limit{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) {
        return std::nullopt;
    }
    rlim_t soft = limit.rlim_cur;
    const std::string text = environment.get(propagated).value_or("");
    const std::string_view digits = std::string_view(text).substr(text.starts_with('U') ? 1 : 0);
    if (const auto value = parse_number<std::uint64_t>(digits)) {
        soft = std::min<rlim_t>(*value, limit.rlim_max);
    }
    return soft == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(soft);
}

} // namespace

Limits read_limits(const Environment& environment) {
    Limits limits;
    if (const auto bytes = predicted(RLIMIT_MEMLOCK, "SLURM_RLIMIT_MEMLOCK", environment)) {
        limits.memlock_kib = *bytes / 1024;
    }
    limits.open_files = predicted(RLIMIT_NOFILE, "SLURM_RLIMIT_NOFILE", environment);
    struct statvfs shm {};
    if (::statvfs("/dev/shm", &shm) == 0 && shm.f_blocks > 0) {
        limits.shm_mib = static_cast<std::uint64_t>(shm.f_bavail) * shm.f_frsize >> 20U;
    }
    return limits;
}

Result<void> raise_memlock() {
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_MEMLOCK, &unlimited) != 0) {
        return os_failure("RLIMIT_MEMLOCK cannot be raised");
    }
    return {};
}

std::vector<std::string> judge_limits(const Limits& limits, bool judge_memlock, unsigned ranks) {
    std::vector<std::string> warnings;
    if (judge_memlock && limits.memlock_kib && *limits.memlock_kib < least_memlock_kib) {
        warnings.push_back(
            format_text("locked memory is limited to {} KiB, RDMA needs more: LimitMEMLOCK=infinity for "
                        "slurmd and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, or memlock=raise "
                        "in the site file",
                        *limits.memlock_kib));
    }
    const std::uint64_t wanted = least_open_files(ranks);
    if (limits.open_files && *limits.open_files < wanted) {
        warnings.push_back(format_text("open files are limited to {}, {} ranks need {} or more: ulimit -n",
                                       *limits.open_files, ranks, wanted));
    }
    if (limits.shm_mib && *limits.shm_mib < least_shm_mib) {
        warnings.push_back(format_text("/dev/shm has {} MiB left, NCCL and data loaders need more: remove what nobody "
                                       "uses there, or mount it larger",
                                       *limits.shm_mib));
    }
    return warnings;
}

} // namespace rdma_nccl
