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

/// In slurmstepd, before set_user_limits() there: the soft limits of the shell that submitted, which travel as
/// SLURM_RLIMIT_* (with a U in front when --propagate asked for it), within the hard limits here.
Limits read_limits(const Environment& environment);

/// Soft and hard limit of locked memory to unlimited; for root only.
Result<void> raise_memlock();

/// What to do about limits that are too low; that of locked memory matters to RDMA only. `ranks`: of the whole step.
std::vector<std::string> judge_limits(const Limits& limits, bool judge_memlock, unsigned ranks);

} // namespace rdma_nccl
