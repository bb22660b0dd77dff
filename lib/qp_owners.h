// SPDX-License-Identifier: Apache-2.0
// Who has queue pairs open on this node: RDMA netlink (rdma_nl, RDMA_NLDEV_CMD_RES_QP_GET), through libnl, which is
// loaded when it is needed, as hwloc is. Only live queue pairs are listed, without bytes: to be read while a step runs.
#pragma once

#include "lib/result.h"
#include "lib/step_processes.h" // whose an owner is

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
    pid_t pid = 0; ///< 0: the kernel, a process not visible from this pid namespace, or whose thread has ended
    std::string kernel_user; ///< "nvme_rdma", "ko2iblnd", ...: of kernel queue pairs, else empty
    unsigned count = 0;

    friend bool operator==(const QpOwner&, const QpOwner&) = default;
};

/// All of this node and network namespace, a process's in one line for each port, whichever of its threads made them.
/// Only reads; root and users see the same. Fails where the kernel has no RDMA netlink or libnl is not installed, in
/// words that say which, and after two seconds without an answer; a device that goes away meanwhile has none. The
/// kernel asks the driver for each queue pair (nldev.c, fill_res_qp_entry), so where thousands are open this is not for
/// each second, and a driver that hangs may hold the caller longer than those two seconds.
Result<std::vector<QpOwner>> read_qp_owners();

} // namespace rdma_nccl
