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

/// Returns the place of each of `nodes` by the output of `scontrol show topology`: of topology/tree (Slurm 22.05 to
/// 26.05) or topology/block (23.11 and newer, sizes since 24.11; src/plugins/topology). A node that it does not have
/// gets none. Fails if it names no switch or block, if a line is malformed, and if it has more than 32 levels or
/// 4 million names of nodes.
Result<NetworkPlaces> places_by_topology(std::string_view output, std::span<const std::string> nodes);

/// The latency between two nodes, indices below the number of nodes.
struct NodeLatency {
    std::size_t a = 0, b = 0;
    double us = 0; ///< microseconds, above 0
};

/// Returns the place of each of `count` nodes, by the latencies between them, of each pair at most once: nodes are a
/// group if each can be reached from each other by steps that are shorter than those out of it, by 15 % at least (a
/// switch adds 0.1 to 0.6 us to 1 to 3 us), and if nearly all of its pairs are that near, too. At least two
/// groups have two or more nodes, and most nodes are in such: one with a slow HCA is a group of its own. There may be
/// groups of groups. A node that was not measured gets no place. Fails if there are no groups, and if too few pairs
/// were measured to tell: less than half of those between the nodes that were.
Result<NetworkPlaces> places_by_latency(std::size_t count, std::vector<NodeLatency> latencies);

} // namespace rdma_nccl
