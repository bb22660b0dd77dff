// SPDX-License-Identifier: Apache-2.0
// Byte counters of ports and interfaces, as the kernel gives them: what they mean differs between devices.
#pragma once

#include "lib/exchange_values.h"
#include "lib/root.h"

#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The counters of these ports ("mlx5_1:1") and interfaces that can be read now, in `before`; `after` is the same.
/// Names: "mlx5_1/1/port_xmit_data", "eth0/tx_bytes".
std::vector<CounterReading> read_counters(const Root& root, std::span<const std::string> ports,
                                          std::span<const std::string> netdevs);

/// Reads the same counters again, into `after`; those that cannot be read are dropped.
void read_again(const Root& root, std::vector<CounterReading>& counters);

} // namespace rdma_nccl
