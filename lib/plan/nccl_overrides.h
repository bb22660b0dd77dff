// SPDX-License-Identifier: Apache-2.0
// NCCL variables set by the user or in one of NCCL's files: they always stay, and we report their effects. And the
// ports that NCCL uses with them, one rule for the plan, the evidence and the live view.
#pragma once

#include "lib/plan/inspect.h"
#include "lib/select/port_selection.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Returns the user's value of an NCCL variable, from the environment or from one of NCCL's files; nullopt if the value
/// is ours or there is none.
std::optional<std::string> nccl_override(const NodeFacts& facts, std::string_view name);

/// Returns the first GID variable that the user has set. NCCL may then take any entry of a GID table.
std::optional<std::string_view> gid_override(const NodeFacts& facts);

/// Sets PortChoice::nccl_effective of the used RoCE ports to the GID index that NCCL takes with the user's variables
/// and, where the user sets none, with ours.
void model_effective(const NodeFacts& facts, const Settings& settings, FabricChoice& choice);

/// Returns the problems that the user's variables cause: a GID other than the chosen one, ports that cannot or should
/// not be used, an interface that does not exist, RDMA disabled.
std::vector<std::string> judge_nccl_overrides(const NodeFacts& facts, const FabricChoice& choice);

/// A list of names in the form of NCCL_IB_HCA and NCCL_SOCKET_IFNAME: [^][=]NAME[:PORT][,...] (parseStringList() and
/// matchIfList() of NCCL, src/misc/utils.cc).
class NcclNameList {
public:
    /// Accepts any text. An empty list matches everything.
    explicit NcclNameList(std::string_view text);

    /// Names are prefixes unless the list begins with '='. A name without a port matches every port.
    [[nodiscard]] bool matches(std::string_view name, std::optional<unsigned> port = std::nullopt) const;

private:
    struct Entry {
        std::string name;
        std::optional<unsigned> port;
    };
    bool exclude_ = false;
    bool exact_ = false;
    std::vector<Entry> entries_;
};

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
