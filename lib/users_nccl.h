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

/// Sets PortChoice::nccl_told of the used RoCE ports to what NCCL takes with the user's variables and, where the user
/// has none, with ours.
void model_told(const NodeFacts& facts, const Settings& settings, FabricChoice& choice);

/// What goes wrong by the user's variables: another GID than the chosen one, ports that cannot be used or had better
/// not be, an interface that is not there, RDMA forbidden.
std::vector<std::string> judge_users_nccl(const NodeFacts& facts, const FabricChoice& choice);

} // namespace rdma_nccl
