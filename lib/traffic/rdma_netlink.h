// SPDX-License-Identifier: Apache-2.0
// Parses messages of RDMA netlink (include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c). Accepts any
// bytes and leaves out what it cannot read.
#pragma once

#include "lib/traffic/qp_owners.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace rdma_nccl {

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
