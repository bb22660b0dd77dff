// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/resources.h"

#include "lib/base/format.h"
#include "lib/base/text.h"

#include <algorithm>
#include <array>
#include <linux/mempolicy.h>
#include <sched.h>
#include <string_view>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// Linux supports at most 1,024 NUMA nodes (CONFIG_NODES_SHIFT is at most 10).
constexpr unsigned long most_nodes = 1024;
using CpuMask = std::array<std::uint64_t, most_cpus / 64>;
using NodeMask = std::array<std::uint64_t, most_nodes / 64>; // for direct system calls: the plugin needs only libc

Result<void> set_affinity(const CpuSet& cpus) {
    const auto mask = cpus.words();
    if (::sched_setaffinity(0, mask.size_bytes(), reinterpret_cast<const cpu_set_t*>(mask.data())) != 0) {
        return os_failure(format_text("cannot run on CPUs {}", cpus.list()));
    }
    const CpuSet got = read_affinity();
    if (got != cpus) {
        return fail(format_text("runs on CPUs {} instead of {}: the cgroup allows no others", got.list(), cpus.list()));
    }
    return {};
}

Result<void> prefer_memory(unsigned node) {
    const auto before = read_memory_policy();
    if (!before || !before->is_default() || node >= most_nodes) {
        return {};
    }
    NodeMask nodes{};
    nodes.at(node / 64) = std::uint64_t{1} << node % 64;
    // The kernel uses one bit less than the size that it is given (get_nodes() in mm/mempolicy.c).
    if (::syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), most_nodes + 1UL) != 0) {
        return os_failure(format_text("cannot prefer the memory of NUMA node {}", node));
    }
    const auto after = read_memory_policy();
    if (after && (after->mode != MPOL_PREFERRED || !after->nodes.contains(node))) {
        return fail(format_text("memory policy is {} instead of prefer:{}", after->text(), node));
    }
    return {};
}

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

CpuSet read_affinity(pid_t pid) {
    // sched_getaffinity() refuses a mask that is too small for the machine with EINVAL.
    CpuMask mask{};
    const int result = ::sched_getaffinity(pid, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data()));
    return result == 0 ? CpuSet(mask) : CpuSet();
}

std::string MemoryPolicy::text() const {
    constexpr std::array<std::string_view, 4> words{"default", "prefer", "bind", "interleave"}; // from MPOL_DEFAULT on
    if (mode < 0 || static_cast<std::size_t>(mode) >= words.size()) {
        return format_text("policy {}", mode);
    }
    const auto word = words.at(static_cast<std::size_t>(mode));
    return is_default() ? std::string(word) : format_text("{}:{}", word, nodes.list());
}

std::optional<MemoryPolicy> read_memory_policy() {
    MemoryPolicy policy;
    NodeMask nodes{};
    if (::syscall(SYS_get_mempolicy, &policy.mode, nodes.data(), most_nodes, nullptr, 0UL) != 0) {
        return std::nullopt;
    }
    policy.nodes = CpuSet(nodes);
    return policy;
}

Result<void> bind_self(const Binding& binding) {
    const bool there = binding.cpus.empty() || binding.cpus == read_affinity();
    const auto cpus = there ? Result<void>() : set_affinity(binding.cpus);
    const auto memory = binding.memory_node ? prefer_memory(*binding.memory_node) : Result<void>();
    return cpus ? memory : cpus;
}

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
