// SPDX-License-Identifier: Apache-2.0
// Process limits that affect RDMA and NCCL: locked memory, open files, shared memory.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

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
