// SPDX-License-Identifier: Apache-2.0
// The ports that NCCL uses on a node: one rule for the plan, the evidence and the live view.
#pragma once

#include "lib/plan/inspect.h"
#include "lib/select/port_selection.h"

#include <string>
#include <vector>

namespace rdma_nccl {

struct PortInUse {
    const Hca* hca = nullptr;
    const Port* port = nullptr;

    /// "mlx5_1:1"
    [[nodiscard]] std::string name() const { return port_name(hca->name, port->number); }
};

/// NCCL opens every ACTIVE port of InfiniBand or Ethernet (ncclIbInitDevices, NCCL 2.28 src/transport/net_ib.cc).
bool nccl_opens(const Port& port);

/// The ports of `choice`; where the user has set NCCL_IB_HCA, the ports that NCCL opens and that value matches. An
/// empty value matches all of them. Pointers into `facts`, in the order of its HCAs.
std::vector<PortInUse> ports_in_use(const NodeFacts& facts, const FabricChoice& choice);

/// "mlx5_1:1" of each.
std::vector<std::string> names_of(const std::vector<PortInUse>& ports);

} // namespace rdma_nccl
