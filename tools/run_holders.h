// SPDX-License-Identifier: Apache-2.0
// Which processes of this user hold GPUs and shared memory, by what they have open: asks no driver, needs no privilege.
#pragma once

#include "lib/root.h"

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// Processes of this user that have one of these device files ("/dev/nvidia0") open, ascending; not this process and
/// those that it descends from, nor NVIDIA's own ("nvidia-cuda-mps-server"). What may not be read is passed over.
/// A restart waits until there are none: memory of a GPU is free once its last holder is gone.
std::vector<pid_t> holders_of(const Root& root, std::span<const std::string> device_files);

/// "python", as ps has it; empty for a process that is gone.
std::string process_name(const Root& root, pid_t pid);

/// Segments of NCCL ("nccl-Ab12Cd" in /dev/shm, ncclShmOpen() in src/misc/shmutils.cc) of this user, which a job leaves
/// behind that is killed.
struct LeftSegments {
    std::vector<std::string> names; ///< that no process has mapped or open, and a minute old or more
    std::uint64_t bytes = 0;        ///< of these
    bool others = false;            ///< there are more, in use or new
};
LeftSegments find_left_segments(const Root& root);

} // namespace rdma_nccl
