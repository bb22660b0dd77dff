// SPDX-License-Identifier: Apache-2.0
// The exchange's messages as text (lib/net/message.h): their fields and the limits of each. All input is validated as
// untrusted.
#pragma once

#include "lib/base/result.h"
#include "lib/evidence/evidence.h"
#include "lib/exchange/messages.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace rdma_nccl {

struct Reached {
    ReachResult errors;
};

struct Hosts {
    HostsTable table;
};

using NodeMessage = std::variant<NodeReport, Reached, NodeAlarm, NodeEvidence>;
using ServerMessage = std::variant<ReachTest, Hosts, Agreement, Disagreement>;

/// The longest message that srun takes from a node, and a node takes from srun, without and with the hosts table. No
/// message that is written is longer.
inline constexpr std::size_t most_from_node = std::size_t{1} << 20;
inline constexpr std::size_t most_from_server = std::size_t{64} << 10;
inline constexpr std::size_t most_with_hosts = std::size_t{16} << 20;

std::string write_message(const NodeMessage& message);
std::string write_message(const ServerMessage& message);

Result<NodeMessage> read_node_message(std::string_view text);
Result<ServerMessage> read_server_message(std::string_view text);

/// Writes a node's evidence on its own, on one line.
std::string write_evidence(const NodeEvidence& evidence);
Result<NodeEvidence> read_evidence(std::string_view text);

} // namespace rdma_nccl
