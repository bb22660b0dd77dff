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
constexpr unsigned long most_nodes = 1024;
using CpuMask = std::array<std::uint64_t, most_cpus / 64>;
using NodeMask = std::array<std::uint64_t, most_nodes / 64>; // for direct system calls: the plugin needs only libc

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

} // namespace rdma_nccl
