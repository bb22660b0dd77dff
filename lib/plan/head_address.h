// SPDX-License-Identifier: Apache-2.0
// MASTER_ADDR: a numeric address of rank 0's node that other nodes can reach, never loopback.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/settings/settings.h"
#include "lib/slurm/step.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A host name's addresses, or the reason why there are none.
struct Resolution {
    std::string name;
    std::vector<IpAddress> addresses; ///< in the resolver's order
    std::string problem;              ///< set when `addresses` is empty
};

/// Asks the system's resolver (getaddrinfo(3)), which may take seconds when DNS is down. A numeric address resolves to
/// itself.
Resolution resolve_host(const std::string& name);

/// Returns the host name that choose_head() needs resolved; nullopt if it needs none.
std::optional<std::string> name_to_resolve(const Settings& settings, const Step& step, const HeadNode& node);

struct HeadAddress {
    std::optional<IpAddress> address;
    std::string source; ///< "setting", "slurm", "resolver", "interface"
    std::string why;
    std::vector<std::string> warnings;
};

/// Chooses the first of: the head setting; the address in srun's note; the resolved address of rank 0's node; on a step
/// of one node, its own socket interface.
HeadAddress choose_head(const Settings& settings, const Step& step, const HeadNode& node,
                        const std::optional<Resolution>& resolution, const std::optional<IpAddress>& own_address);

/// For the node that really runs rank 0: returns why `address` cannot be right, or nullopt if it is this node's own or
/// the node's addresses are unknown.
std::optional<std::string> verify_head(const IpAddress& address, const std::string& node_name,
                                       const std::vector<Netdev>& netdevs);

} // namespace rdma_nccl
