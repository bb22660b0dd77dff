// SPDX-License-Identifier: Apache-2.0
// The exchange's messages as bytes. A message is text: its name, then a line "key words..." for each value; unknown
// keys are passed over, so that a newer side may say more. On the wire a message follows its length, four bytes, the
// highest first. Whatever comes in is checked as input from a stranger: counts, lengths and characters have limits.
#pragma once

#include "lib/evidence.h"
#include "lib/exchange_values.h"
#include "lib/result.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rdma_nccl {

using NodeMessage = std::variant<NodeReport, ReachResult, NodeEvidence>;
using ServerMessage = std::variant<ReachTest, HostsTable, Agreement, Disagreement>;

/// What srun takes from a node at most, and a node from srun: without and with the hosts table. No message that is
/// written is longer.
inline constexpr std::size_t most_from_node = std::size_t{512} << 10;
inline constexpr std::size_t most_from_server = std::size_t{32} << 10;
inline constexpr std::size_t most_with_hosts = std::size_t{8} << 20;

/// With the length in front.
std::string write_message(const NodeMessage& message);
std::string write_message(const ServerMessage& message);

/// A body as it goes over the wire.
std::string with_length(std::string_view body);

/// From a body without its length.
Result<NodeMessage> read_node_message(std::string_view body);
Result<ServerMessage> read_server_message(std::string_view body);

/// Cuts a stream of bytes into messages. Keeps no more than one message, which is at most `limit` bytes.
class MessageStream {
public:
    explicit MessageStream(std::size_t limit) : limit_(limit) {}

    void append(std::string_view bytes) { bytes_ += bytes; }
    /// The next whole body, nullopt when more bytes are needed; fails when a length is beyond the limit.
    Result<std::optional<std::string>> next();
    /// How many bytes may come before next() has to be called.
    [[nodiscard]] std::size_t room() const;

private:
    std::size_t limit_;
    std::string bytes_;
};

} // namespace rdma_nccl
