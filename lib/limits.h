// SPDX-License-Identifier: Apache-2.0
// Limits of a process that RDMA and NCCL run into: locked memory, open files, shared memory.
#pragma once

#include "lib/environment.h"
#include "lib/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// What the ranks will have; absent: unlimited, or not known.
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

/// In slurmstepd, before set_user_limits() there: the soft limits of the shell that submitted, which travel as
/// SLURM_RLIMIT_* (with a U in front when --propagate asked for it), within the hard limits here.
Limits read_limits(const Environment& environment);

/// Soft and hard limit of locked memory to unlimited; for root only.
Result<void> raise_memlock();

/// What to do about limits that are too low; that of locked memory matters to RDMA only. `ranks`: of the whole step.
std::vector<std::string> judge_limits(const Limits& limits, bool judge_memlock, unsigned ranks);

} // namespace rdma_nccl
