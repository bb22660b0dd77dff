// SPDX-License-Identifier: Apache-2.0
// hosts=mount: an /etc/hosts with the step's nodes for one task.
#pragma once

#include "lib/exchange_values.h"
#include "lib/result.h"

#include <string>

namespace rdma_nccl {

/// The table, and the node's /etc/hosts behind it: for the step's nodes the table comes first. "" when it cannot be
/// read, or is longer than 1 MiB.
std::string with_own_hosts(const HostsTable& hosts);

/// Makes /etc/hosts of this process, and of what it starts, one with this text: a mount namespace of its own
/// (mount_namespaces(7)), which ends with the last process in it. The file has no name anywhere. As root.
Result<void> mount_etc_hosts(const std::string& text);

} // namespace rdma_nccl
