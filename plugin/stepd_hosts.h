// SPDX-License-Identifier: Apache-2.0
// hosts=file and hosts=mount: files with the step's nodes, and an /etc/hosts of the step's tasks.
#pragma once

#include "lib/apply/hosts_file.h"
#include "lib/base/result.h"
#include "plugin/spank.h"
#include "plugin/step_layout.h"

#include <chrono>
#include <optional>
#include <string>

namespace rdma_nccl {

struct NodeState;

/// The /etc/hosts for the step on this node: made by the first task that mounts it, removed when the step ends. The
/// path is in a directory where only root can create files. It contains Slurm's ids, and the pid of slurmstepd to
/// distinguish the step from an earlier one with the same ids.
struct MountedHosts {
    std::string path;
    std::string text;
};

/// hosts=mount: asks Slurm for the step's nodes before these agree, while the step still runs on all of them: slurmctld
/// forgets a component of a heterogeneous step that has ended. Trusts only the ids from Slurm, not the step's
/// environment, which the user controls.
std::optional<ChildValue<LayoutSummary>> ask_for_nodes(const Settings& settings, const SpankHandle& host,
                                                       bool heterogeneous);

/// Writes the files of hosts=file, and decides on that of hosts=mount.
void write_hosts(NodeState& state, const SpankHandle& host, HostsTable hosts,
                 std::optional<ChildValue<LayoutSummary>>& asked, std::chrono::steady_clock::time_point deadline);

/// Gives this process and its children an /etc/hosts with this text, in a mount namespace of its own
/// (mount_namespaces(7)), which ends with its last process. Before that, makes sure that programs gain no privileges by
/// set-user-ID bits (PR_SET_NO_NEW_PRIVS): a program that runs as root must not trust what a user may have written.
/// Call as root, in the task.
Result<void> mount_etc_hosts(const MountedHosts& hosts);

/// Removes the file, if a task has made it. Call as root.
void remove_etc_hosts(const MountedHosts& hosts);

} // namespace rdma_nccl
