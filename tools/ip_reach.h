// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/ip.h"
#include "tools/verbs_errors.h"

#include <chrono>
#include <string>

namespace rdma_nccl {

/// Whether IP reaches a peer from one of this host's addresses: by the answer to a TCP connection that nobody waits
/// for. `netdev`: the way for link-local addresses.
IpReach ip_reach(const IpAddress& from, const IpAddress& to, const std::string& netdev,
                 std::chrono::milliseconds limit);

} // namespace rdma_nccl
