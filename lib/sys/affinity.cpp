// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/affinity.h"

#include "lib/base/format.h"

#include <array>
#include <cstdint>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

/// Linux supports at most 1,024 NUMA nodes (CONFIG_NODES_SHIFT is at most 10).
constexpr unsigned most_nodes = 1024;
using CpuMask = std::array<std::uint64_t, most_cpus / 64>;
using NodeMask = std::array<std::uint64_t, most_nodes / 64>;

// Direct system calls, without libnuma: the plugin depends on nothing but the C library.
long get_mempolicy(int& mode, NodeMask& nodes) {
    return ::syscall(SYS_get_mempolicy, &mode, nodes.data(), static_cast<unsigned long>(most_nodes), nullptr, 0UL);
}
long set_mempolicy(int mode, const NodeMask& nodes) {
    // The kernel uses one bit less than the size that it is given (get_nodes() in mm/mempolicy.c).
    return ::syscall(SYS_set_mempolicy, mode, nodes.data(), static_cast<unsigned long>(most_nodes) + 1);
}

Result<void> set_affinity(const CpuSet& cpus) {
    const CpuMask& mask = cpus.words();
    if (::sched_setaffinity(0, sizeof mask, reinterpret_cast<const cpu_set_t*>(mask.data())) != 0) {
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
    if (set_mempolicy(MPOL_PREFERRED, nodes) != 0) {
        return os_failure(format_text("cannot prefer the memory of NUMA node {}", node));
    }
    const auto after = read_memory_policy();
    if (after && (after->mode != MPOL_PREFERRED || !after->nodes.contains(node))) {
        return fail(format_text("memory policy is {} instead of prefer:{}", after->text(), node));
    }
    return {};
}

} // namespace

CpuSet read_affinity(pid_t pid) {
    // sched_getaffinity() refuses a mask that is too small for the machine with EINVAL.
    CpuMask mask{};
    const int result = ::sched_getaffinity(pid, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data()));
    return result == 0 ? CpuSet(mask) : CpuSet();
}

std::string MemoryPolicy::text() const {
    const auto with_nodes = [this](std::string_view word) { return format_text("{}:{}", word, nodes.list()); };
    switch (mode) {
    case MPOL_DEFAULT:
        return "default";
    case MPOL_PREFERRED:
        return with_nodes("prefer");
    case MPOL_BIND:
        return with_nodes("bind");
    case MPOL_INTERLEAVE:
        return with_nodes("interleave");
    default:
        return format_text("policy {}", mode);
    }
}

std::optional<MemoryPolicy> read_memory_policy() {
    MemoryPolicy policy;
    NodeMask nodes{};
    if (get_mempolicy(policy.mode, nodes) != 0) {
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

} // namespace rdma_nccl
