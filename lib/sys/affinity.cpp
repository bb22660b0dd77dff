// SPDX-License-Identifier: Apache-2.0
#include "lib/sys/affinity.h"

#include "lib/base/format.h"

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <linux/mempolicy.h>
#include <memory>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

struct FreeCpus {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using Cpus = std::unique_ptr<cpu_set_t, FreeCpus>;

/// Linux supports at most 1,024 NUMA nodes (CONFIG_NODES_SHIFT is at most 10).
constexpr unsigned most_nodes = 1024;
constexpr unsigned word_bits = sizeof(unsigned long) * CHAR_BIT;
using NodeMask = std::array<unsigned long, most_nodes / word_bits>;

// Direct system calls, without libnuma: the plugin depends on nothing but the C library.
long get_mempolicy(int& mode, NodeMask& nodes) {
    return ::syscall(SYS_get_mempolicy, &mode, nodes.data(), static_cast<unsigned long>(most_nodes), nullptr, 0UL);
}
long set_mempolicy(int mode, const NodeMask& nodes) {
    // The kernel uses one bit less than the size that it is given (get_nodes() in mm/mempolicy.c).
    return ::syscall(SYS_set_mempolicy, mode, nodes.data(), static_cast<unsigned long>(most_nodes) + 1);
}

Result<void> set_affinity(const CpuSet& cpus) {
    const std::size_t size = CPU_ALLOC_SIZE(most_cpus);
    const Cpus set(CPU_ALLOC(most_cpus));
    if (!set) {
        return fail("no memory for a CPU mask", ENOMEM);
    }
    CPU_ZERO_S(size, set.get());
    for (const unsigned cpu : cpus.cpus()) {
        CPU_SET_S(cpu, size, set.get());
    }
    if (::sched_setaffinity(0, size, set.get()) != 0) {
        return fail(format_text("cannot run on CPUs {}: {}", cpus.list(), ::strerror(errno)), errno);
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
    nodes.at(node / word_bits) = 1UL << node % word_bits;
    if (set_mempolicy(MPOL_PREFERRED, nodes) != 0) {
        return fail(format_text("cannot prefer the memory of NUMA node {}: {}", node, ::strerror(errno)), errno);
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
    const std::size_t size = CPU_ALLOC_SIZE(most_cpus);
    const Cpus set(CPU_ALLOC(most_cpus));
    CpuSet cpus;
    if (!set || ::sched_getaffinity(pid, size, set.get()) != 0) {
        return cpus;
    }
    for (unsigned cpu = 0; cpu < most_cpus; ++cpu) {
        if (CPU_ISSET_S(cpu, size, set.get())) {
            cpus.add(cpu);
        }
    }
    return cpus;
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
    for (unsigned node = 0; node < most_nodes; ++node) {
        if ((nodes.at(node / word_bits) >> node % word_bits & 1UL) != 0) {
            policy.nodes.add(node);
        }
    }
    return policy;
}

Result<void> bind_self(const Binding& binding) {
    const bool there = binding.cpus.empty() || binding.cpus == read_affinity();
    const auto cpus = there ? Result<void>() : set_affinity(binding.cpus);
    const auto memory = binding.memory_node ? prefer_memory(*binding.memory_node) : Result<void>();
    return cpus ? memory : cpus;
}

} // namespace rdma_nccl
