// SPDX-License-Identifier: Apache-2.0
// Finds the processes of this user that hold GPUs and shared memory, by their open files. It asks no driver and needs
// no privilege.
#pragma once

#include "lib/sys/sysroot.h"

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl::run {

/// Returns the processes of this user that have one of these device files ("/dev/nvidia0") open, in ascending order,
/// without this process, its ancestors and NVIDIA's own processes ("nvidia-cuda-mps-server"). Processes that may not be
/// read are skipped. A restart waits until there are none: the memory of a GPU is free once the last of them is gone.
std::vector<pid_t> find_device_processes(const SysRoot& root, std::span<const std::string> device_files);

/// Returns the name as ps shows it, like "python"; empty if the process is gone.
std::string process_name(const SysRoot& root, pid_t pid);

/// NCCL's shared memory segments of this user ("nccl-Ab12Cd" in /dev/shm, ncclShmOpen() in src/misc/shmutils.cc). A job
/// that is killed leaves them behind.
struct LeftSegments {
    std::vector<std::string> names; ///< a minute old or more, and neither mapped nor open in any process
    std::uint64_t bytes = 0;        ///< total size of `names`
    bool others = false;            ///< there are more, which are in use or new
};
LeftSegments find_left_segments(const SysRoot& root);

} // namespace rdma_nccl::run
