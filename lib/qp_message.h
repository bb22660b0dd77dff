// SPDX-License-Identifier: Apache-2.0
// Messages of RDMA netlink (include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c): bytes to values. Total:
// any bytes may come in; what cannot be read is left out.
#pragma once

#include "lib/qp_owners.h"

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
    std::uint32_t index = 0; ///< the kernel's number, which requests have
    std::string name;

    friend bool operator==(const RdmaDevice&, const RdmaDevice&) = default;
};

/// A message of RDMA_NLDEV_CMD_GET without its header. nullopt: it has no index or no name.
std::optional<RdmaDevice> parse_rdma_device(std::span<const std::byte> attributes);

/// The queue pairs of one device, by owner. However many there are, they take the room of their owners.
class QpCounts {
public:
    /// Adds those of a message of RDMA_NLDEV_CMD_RES_QP_GET without its header. Not counted: SMI and GSI, which each
    /// device has for its management, and those in RESET without a port, which have not begun. Any other without a port
    /// is of port 1 (a kernel notes the port when it is set; iWARP need not set one).
    void add(std::span<const std::byte> attributes);
    /// In the order of ports and processes.
    [[nodiscard]] std::vector<QpOwner> owners(std::string_view hca) const;

private:
    void add_one(std::span<const std::byte> attributes);

    using Owner = std::tuple<unsigned, pid_t, std::string>; ///< port, process, kernel user
    std::map<Owner, unsigned> counts_;
};

} // namespace rdma_nccl
