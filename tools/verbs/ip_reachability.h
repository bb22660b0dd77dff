// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/net/ip.h"
#include "tools/verbs/errors.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace rdma_nccl {

/// An ICMP error such as "destination unreachable", from a socket's error queue (ip(7), IP_RECVERR).
struct IcmpError {
    bool v6 = false;
    std::uint8_t type = 0, code = 0;
    std::optional<IpAddress> from;
};

/// Returns whether the error shows that packets arrive: a firewall prohibits them (RFC 1122 3.2.2.1 and RFC 1812
/// 5.2.7.1: codes 9, 10 and 13; RFC 4443: code 1), or the peer itself sent the error. firewalld rejects packets this
/// way, and TCP reports "no route to host".
bool icmp_is_answer(const IcmpError& error, const IpAddress& peer);

/// Tests whether IP reaches a peer from one of this host's addresses, by the answer to a TCP connection to a port
/// without a listener. `netdev`: the interface for link-local addresses.
IpReach ip_reach(const IpAddress& from, const IpAddress& to, const std::string& netdev,
                 std::chrono::milliseconds limit);

} // namespace rdma_nccl
