// SPDX-License-Identifier: Apache-2.0
// MASTER_ADDR: a numeric address of rank 0's node that other nodes reach, never loopback (doc/design.md, Exchange).
#pragma once

#include "lib/fabric.h"
#include "lib/settings.h"
#include "lib/step.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A host name's addresses, or why there are none.
struct Resolution {
    std::string name;
    std::vector<IpAddress> addresses; ///< in the resolver's order
    std::string problem;              ///< set when `addresses` is empty
};

/// Asks the system's resolver (getaddrinfo(3)): may take seconds when DNS is down. Numeric text resolves to itself.
Resolution resolve_host(const std::string& name);

/// The host name that choose_head() needs resolved; nullopt when it needs none.
std::optional<std::string> name_to_resolve(const Settings& settings, const Step& step, const HeadNode& node);

struct HeadAddress {
    std::optional<IpAddress> address;
    std::string source; ///< "setting", "slurm", "resolver", "interface"
    std::string why;
    std::vector<std::string> warnings;
};

/// head setting > address in srun's note > resolver > on a step of one node, its own socket interface.
HeadAddress choose_head(const Settings& settings, const Step& step, const HeadNode& node,
                        const std::optional<Resolution>& resolution, const std::optional<IpAddress>& own_address);

/// For the node that really runs rank 0: why `address` cannot be right, or nullopt when it is this node's own.
std::optional<std::string> verify_head(const IpAddress& address, const std::string& node_name,
                                       const std::vector<Netdev>& netdevs);

} // namespace rdma_nccl
