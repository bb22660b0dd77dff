// SPDX-License-Identifier: Apache-2.0
// hosts=mount: an /etc/hosts with the step's nodes for its tasks. What is in it, make_etc_hosts() decides.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// One for the step on this node: made by the first task that mounts it, removed when the step ends.
struct MountedHosts {
    std::string path;
    std::string text;
};

/// Where nobody but root can make files: the ids are Slurm's, and the process's own tells a step from an earlier one
/// of these ids.
MountedHosts mounted_hosts(std::uint32_t job_id, std::uint32_t step_id, std::string text);

/// The node's /etc/hosts; nullopt when it cannot be read, or is longer than 1 MiB.
std::optional<std::string> read_etc_hosts();

/// Makes /etc/hosts of this process, and of what it starts, one with this text: a mount namespace of its own
/// (mount_namespaces(7)), which ends with the last process in it. Before that the process gives up that programs gain
/// privileges by set-user-ID bits (PR_SET_NO_NEW_PRIVS): a program of root's must not believe what a user may have
/// written. As root, in the task.
Result<void> mount_etc_hosts(const MountedHosts& hosts);

/// As root. Where no task has made it, nothing happens.
void remove_etc_hosts(const MountedHosts& hosts);

} // namespace rdma_nccl
