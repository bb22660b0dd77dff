// SPDX-License-Identifier: Apache-2.0
// What a process may use of the machine: its CPU affinity and memory policy, and the limits that affect RDMA and NCCL
// (locked memory, open files, shared memory).
#pragma once

#include "lib/base/cpu_set.h"
#include "lib/base/result.h"
#include "lib/sys/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

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

/// The limits that the ranks will have. An absent value means unlimited or unknown.
struct Limits {
    std::optional<std::uint64_t> memlock_kib; ///< RLIMIT_MEMLOCK, soft
    std::optional<std::uint64_t> open_files;  ///< RLIMIT_NOFILE, soft
    std::optional<std::uint64_t> shm_mib;     ///< free in /dev/shm
};

/// Of locked memory, in KiB: systemd's and many kernels' default of 8 MiB, or 64 KiB before, does not do for one
/// connection of NCCL's; what a rank locks grows with channels and peers.
constexpr std::uint64_t least_memlock_kib = 64 << 10;
/// Free in /dev/shm, in MiB: NCCL's shared segments of a node with eight GPUs, and the batches of torch's data loaders.
/// Docker's default is 64 MiB.
constexpr std::uint64_t least_shm_mib = 256;
/// Rank 0 has a connection of each rank at a time (NCCL's bootstrap.cc), and each rank its own files.
constexpr std::uint64_t least_open_files(unsigned ranks) {
    return 256 + std::uint64_t{ranks};
}

/// Predicts the ranks' limits. In slurmstepd this runs before set_user_limits(), so it takes the soft limits of the
/// submitting shell from SLURM_RLIMIT_* (with a leading U if --propagate asked for it), capped by the hard limits here.
Limits read_limits(const Environment& environment);

/// Sets the soft and hard limits of locked memory to unlimited. Only root may do this.
Result<void> raise_memlock();

/// Returns a warning with a remedy for each limit that is too low. `judge_memlock`: false when RDMA is not used, since
/// the locked memory limit matters only to RDMA. `ranks`: number of ranks in the whole step.
std::vector<std::string> judge_limits(const Limits& limits, bool judge_memlock, unsigned ranks);

} // namespace rdma_nccl
