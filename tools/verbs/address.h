// SPDX-License-Identifier: Apache-2.0
// The data that the two ends of an RDMA connection must exchange before they can connect.
#pragma once

#include "lib/base/json.h"
#include "lib/base/result.h"

#include <array>
#include <cstdint>
#include <vector>

namespace rdma_nccl {

struct VerbsAddress {
    std::array<std::uint8_t, 16> gid{};
    std::uint16_t lid = 0;
    bool ethernet = true;
    unsigned mtu = 0;                          ///< active MTU of the port in bytes: 256 to 4096
    std::vector<std::uint32_t> queue_pairs;    ///< numbers of the queue pairs
    std::vector<std::uint32_t> packet_numbers; ///< first packet number of each
    std::uint64_t memory = 0;                  ///< address and key of the memory that the other side may write
    std::uint32_t key = 0;
    std::uint64_t size = 0;
    std::uint64_t mailbox = 0; ///< address and key of the peer's destination in a ping-pong: always host memory
    std::uint32_t mailbox_key = 0;

    friend bool operator==(const VerbsAddress&, const VerbsAddress&) = default;
};

Json address_json(const VerbsAddress& address);
/// Fails if the JSON is not valid output of address_json().
Result<VerbsAddress> read_address(const Json& json);

} // namespace rdma_nccl
