// SPDX-License-Identifier: Apache-2.0
// hosts=mount: gives the step's tasks an /etc/hosts with the step's nodes. make_etc_hosts() decides its content.
#pragma once

#include "lib/base/result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// The file for the step on this node: made by the first task that mounts it, removed when the step ends.
struct MountedHosts {
    std::string path;
    std::string text;
};

/// Chooses a path in a directory where only root can create files. It contains Slurm's ids, and the pid of this process
/// to distinguish the step from an earlier one with the same ids.
MountedHosts mounted_hosts(std::uint32_t job_id, std::uint32_t step_id, std::string text);

/// Returns the node's /etc/hosts, or nullopt if it cannot be read or is longer than 1 MiB.
std::optional<std::string> read_etc_hosts();

/// Gives this process and its children an /etc/hosts with this text, in a mount namespace of its own
/// (mount_namespaces(7)), which ends with its last process. Before that, makes sure that programs gain no privileges by
/// set-user-ID bits (PR_SET_NO_NEW_PRIVS): a program that runs as root must not trust what a user may have written.
/// Call as root, in the task.
Result<void> mount_etc_hosts(const MountedHosts& hosts);

/// Removes the file, if a task has made it. Call as root.
void remove_etc_hosts(const MountedHosts& hosts);

} // namespace rdma_nccl
