// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/ip.h"
#include "tools/verbs_errors.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// An ICMP "destination unreachable" and the like, as the error queue of a socket has it (ip(7), IP_RECVERR).
struct IcmpError {
    bool v6 = false;
    std::uint8_t type = 0, code = 0;
    std::optional<IpAddress> from;
};

/// Whether it shows that packets get there: a firewall prohibits them (RFC 1122 3.2.2.1 and RFC 1812 5.2.7.1: codes 9,
/// 10 and 13; RFC 4443: code 1), or the peer itself sent it. firewalld rejects so, and TCP calls it "no route to host".
bool icmp_is_answer(const IcmpError& error, const IpAddress& peer);

/// Whether IP reaches a peer from one of this host's addresses: by the answer to a TCP connection that nobody waits
/// for. `netdev`: the way for link-local addresses.
IpReach ip_reach(const IpAddress& from, const IpAddress& to, const std::string& netdev,
                 std::chrono::milliseconds limit);

} // namespace rdma_nccl
