// SPDX-License-Identifier: Apache-2.0
// Reads, sets and verifies the CPU affinity and the memory policy of a process.
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/base/result.h"

#include <optional>
#include <string>
#include <sys/types.h>

namespace rdma_nccl {

/// Returns the affinity mask of a process (0: the calling thread), or an empty set when it cannot be read.
CpuSet read_affinity(pid_t pid = 0);

/// The NUMA memory policy of a process (set_mempolicy(2)).
struct MemoryPolicy {
    int mode = 0; ///< MPOL_DEFAULT, ...
    CpuSet nodes; ///< NUMA nodes; empty except for MPOL_PREFERRED, BIND and INTERLEAVE
    [[nodiscard]] bool is_default() const { return mode == 0; }
    /// Returns "default", "prefer:1", "bind:0-1", ...
    [[nodiscard]] std::string text() const;
};
/// Returns the policy of the calling thread, or nullopt when the kernel does not tell (no NUMA, or blocked by seccomp).
std::optional<MemoryPolicy> read_memory_policy();

/// The CPUs and the memory node of a rank. Empty members leave the current setting as it is.
struct Binding {
    CpuSet cpus;                         ///< empty: keep the current mask
    std::optional<unsigned> memory_node; ///< preferred, not forced: the kernel allocates elsewhere when it is full
};

/// Binds the calling thread, and the program that it will execute. Skips what is already in place, and never overrides
/// a memory policy that was already set. Reads back the result to verify that the kernel applied it. When one part
/// fails, still does the other, and returns the first error.
Result<void> bind_self(const Binding& binding);

} // namespace rdma_nccl
