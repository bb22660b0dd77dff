// SPDX-License-Identifier: Apache-2.0
// Who has queue pairs open on this node: RDMA netlink (rdma_nl, RDMA_NLDEV_CMD_RES_QP_GET), through libnl, which is
// loaded when it is needed, as hwloc is. Only live queue pairs are listed, without bytes: to be read while a step runs.
#pragma once

#include "lib/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// The queue pairs of one owner on one port. Management pairs of the kernel (SMI, GSI) are not listed.
struct QpOwner {
    std::string hca;
    unsigned port = 1;
    pid_t pid = 0;           ///< 0: the kernel, or a process that is not visible from this pid namespace
    std::string kernel_user; ///< "nvme_rdma", "ko2iblnd", ...: of kernel queue pairs, else empty
    unsigned count = 0;

    friend bool operator==(const QpOwner&, const QpOwner&) = default;
};

/// All of this node and network namespace. Fails where the kernel has no RDMA netlink or libnl is not installed, in
/// words that say which.
Result<std::vector<QpOwner>> read_qp_owners();

/// Whose a process is, for a step that is looked at.
enum class ProcessOwner { Step, OtherStep, System, Gone };

struct ProcessIdentity {
    ProcessOwner owner = ProcessOwner::Gone;
    std::string name; ///< "job 123 step 0" of OtherStep, else the command's name
};

/// A step on this node: what its processes' cgroups are called, and whose descendants they are.
struct StepProcesses {
    std::uint32_t job_id = 0;
    std::uint32_t step_id = 0;
    pid_t ancestor = 0; ///< slurmstepd, or the program of `verify -- CMD`; 0: cgroups alone

    /// Looks at /proc/PID/cgroup (".../job_12/step_0/...", both cgroup versions), then at the parents.
    [[nodiscard]] ProcessIdentity identify(pid_t pid) const;
};

} // namespace rdma_nccl
