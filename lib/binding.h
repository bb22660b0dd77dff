// SPDX-License-Identifier: Apache-2.0
// The CPUs and the memory policy of a process: read, set, and read back.
#pragma once

#include "lib/cpu_set.h"
#include "lib/result.h"

#include <optional>
#include <string>
#include <sys/types.h>

namespace rdma_nccl {

/// The affinity mask of a process (0: the calling thread); empty when it cannot be read.
CpuSet read_affinity(pid_t pid = 0);

/// What memory a process takes first (set_mempolicy(2)).
struct MemoryPolicy {
    int mode = 0; ///< MPOL_DEFAULT, ...
    CpuSet nodes; ///< NUMA nodes; only MPOL_PREFERRED, BIND, INTERLEAVE have some
    [[nodiscard]] bool is_default() const { return mode == 0; }
    /// "default", "prefer:1", "bind:0-1", ...
    [[nodiscard]] std::string text() const;
};
/// Of the calling thread; nullopt where the kernel does not say (no NUMA, forbidden by seccomp).
std::optional<MemoryPolicy> read_memory_policy();

/// Where a rank shall run; what is absent stays as it is.
struct Binding {
    CpuSet cpus;                         ///< empty: as they are
    std::optional<unsigned> memory_node; ///< preferred, not forced: allocations go elsewhere when it is full
};

/// Binds the calling thread, and what it will execute, where it is not so already. A memory policy that somebody has
/// set stays. Fails with what could not be done, after it has done the rest; that the kernel really took it is read
/// back.
Result<void> bind_self(const Binding& binding);

} // namespace rdma_nccl
