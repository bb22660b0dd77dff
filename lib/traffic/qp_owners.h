// SPDX-License-Identifier: Apache-2.0
// Lists who has queue pairs open on this node, with RDMA netlink (rdma_nl, RDMA_NLDEV_CMD_RES_QP_GET) through libnl,
// which is loaded on demand like hwloc. Lists only live queue pairs, without bytes: read it while a step runs.
#pragma once

#include "lib/base/result.h"
#include "lib/slurm/step_processes.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace rdma_nccl {

/// The queue pairs of one owner on one port. The kernel's management pairs (SMI, GSI) are not listed.
struct QpOwner {
    std::string hca;
    unsigned port = 1;
    pid_t pid = 0; ///< 0: the kernel, a process invisible in this pid namespace, or one whose thread has ended
    std::string kernel_user; ///< "nvme_rdma", "ko2iblnd", ... for kernel queue pairs, else empty
    unsigned count = 0;

    friend bool operator==(const QpOwner&, const QpOwner&) = default;
};

/// Returns all owners of this node and network namespace, with one entry per process and port for all threads of a
/// process. Only reads; root and users see the same. Fails, with the reason, if the kernel has no RDMA netlink or libnl
/// is not installed, and after two seconds without an answer. A device that disappears while this runs has no entries.
/// The kernel asks the driver about each queue pair (nldev.c, fill_res_qp_entry): with thousands of them do not call
/// this every second, and a driver that hangs may block the caller for more than those two seconds.
Result<std::vector<QpOwner>> read_qp_owners();

} // namespace rdma_nccl
