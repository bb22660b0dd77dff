// SPDX-License-Identifier: Apache-2.0
// Lists who has queue pairs open on this node, with RDMA netlink (rdma_nl, RDMA_NLDEV_CMD_RES_QP_GET) through libnl,
// which is loaded on demand like hwloc. Lists only live queue pairs, without bytes: read it while a step runs.
#pragma once

#include "lib/base/result.h"
#include "lib/slurm/step_processes.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <tuple>
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
/// is not installed, and after ten seconds without an answer. A device that disappears while this runs has no entries.
/// The kernel asks the driver about each queue pair (nldev.c, fill_res_qp_entry): with thousands of them do not call
/// this every second, and a driver that hangs may block the caller for more than those ten seconds.
Result<std::vector<QpOwner>> read_qp_owners();

// Messages of RDMA netlink (include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c). These functions take
// any bytes, and skip messages that are damaged.

struct RdmaDevice {
    std::uint32_t index = 0; ///< the kernel's number, used in requests
    std::string name;

    friend bool operator==(const RdmaDevice&, const RdmaDevice&) = default;
};

/// Parses a message of RDMA_NLDEV_CMD_GET without its header. Returns nullopt if it has no index or no name.
std::optional<RdmaDevice> parse_rdma_device(std::span<const std::byte> attributes);

/// Counts the queue pairs of one device by owner. Memory grows with the number of owners, not of queue pairs.
class QpCounts {
public:
    /// Adds the queue pairs in a message of RDMA_NLDEV_CMD_RES_QP_GET without its header. Does not count SMI and GSI
    /// pairs, which each device has for its management, or pairs in RESET without a port, which are not in use yet. Any
    /// other pair without a port counts for port 1 (a kernel notes the port when it is set; iWARP need not set one).
    void add(std::span<const std::byte> attributes);
    /// Returns the owners in the order of ports and processes.
    [[nodiscard]] std::vector<QpOwner> owners(std::string_view hca) const;

private:
    void add_one(std::span<const std::byte> attributes);

    using Owner = std::tuple<unsigned, pid_t, std::string>; ///< port, process, kernel user
    std::map<Owner, unsigned> counts_;
};

} // namespace rdma_nccl
