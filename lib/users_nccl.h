// SPDX-License-Identifier: Apache-2.0
// NCCL variables that the user or one of NCCL's files sets. They stay, whatever they do; what they do is said.
#pragma once

#include "lib/fabric_choice.h"
#include "lib/inspect.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// The user's value of an NCCL variable, from the environment or from one of NCCL's files; nullopt when it is ours or
/// nobody's.
std::optional<std::string> users_nccl_value(const NodeFacts& facts, std::string_view name);

/// The first GID variable that the user has set: NCCL may then take any entry of a GID table.
std::optional<std::string_view> users_gid_variable(const NodeFacts& facts);

/// Sets PortChoice::nccl_told of the used RoCE ports to what NCCL takes with the user's variables and, where the user
/// has none, with ours.
void model_told(const NodeFacts& facts, const Settings& settings, FabricChoice& choice);

/// What goes wrong by the user's variables: another GID than the chosen one, ports that cannot be used or had better
/// not be, an interface that is not there, RDMA forbidden.
std::vector<std::string> judge_users_nccl(const NodeFacts& facts, const FabricChoice& choice);

/// A list of names as NCCL_IB_HCA and NCCL_SOCKET_IFNAME hold: [^][=]NAME[:PORT][,...] (parseStringList() and
/// matchIfList() of NCCL, src/misc/utils.cc).
class NcclNameList {
public:
    /// Total: any text gives a list; an empty one matches everything.
    explicit NcclNameList(std::string_view text);

    /// Names are prefixes unless the list begins with '='; a name without port matches every port.
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

} // namespace rdma_nccl
