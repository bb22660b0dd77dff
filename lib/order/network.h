// SPDX-License-Identifier: Apache-2.0
// The places of nodes in a network, from Slurm's description of it or from latencies that were measured.
#pragma once

#include "lib/base/result.h"
#include "lib/order/order.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

using NetworkPlaces = std::vector<std::optional<NetworkPlace>>;

/// Returns the place of each of `nodes` by the output of `scontrol show topology`: of topology/tree or topology/block
/// (src/plugins/topology in Slurm, the same from 22.05 to 26.05). A node that it does not have gets none. Fails if it
/// names no switch or block, or if a line is malformed.
Result<NetworkPlaces> places_by_topology(std::string_view output, std::span<const std::string> nodes);

/// The latency between two nodes, indices below the number of nodes.
struct NodeLatency {
    std::size_t a = 0, b = 0;
    double us = 0; ///< microseconds, above 0
};

/// Returns the place of each of `count` nodes, by the latencies between them: nodes are a group if each can be reached
/// from each other by steps that are shorter than those out of it, by 15 % at least (a switch adds 0.1 to 0.6 us to
/// 1 to 3 us), and if nearly all of its pairs are that near, too. There may be groups of groups, and none. A node that
/// was not measured gets no place. Fails if too few pairs were measured to tell: less than half of those between the
/// nodes that were.
Result<NetworkPlaces> places_by_latency(std::size_t count, std::vector<NodeLatency> latencies);

} // namespace rdma_nccl
