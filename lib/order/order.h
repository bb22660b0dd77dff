// SPDX-License-Identifier: Apache-2.0
// The order of a step's nodes by the network, so that neighbours of a ring share a switch or block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl {

/// Where a node is in the network.
struct NetworkPlace {
    /// From the outermost one to that of the node: switches of a tree, or the block. Two nodes that are equal up to
    /// some depth share the switch there. A node with several switches at a depth has all of them as one text.
    std::vector<std::string> groups;

    friend bool operator==(const NetworkPlace&, const NetworkPlace&) = default;
};

/// Parses SLURM_TOPOLOGY_ADDR, "spine.leaf[1-2].n07" or "b3.n07", by SLURM_TOPOLOGY_ADDR_PATTERN, "switch.switch.node"
/// or "block.node" (srun(1)). `node`: its name in Slurm. Returns nullopt if they do not fit each other, as where a name
/// of a switch has a period, or if they name no group: topology/flat.
std::optional<NetworkPlace> parse_place(std::string_view address, std::string_view pattern, std::string_view node);

/// Returns the group at a depth; empty if the place is not known, or has none there.
inline std::string_view group_at(const std::optional<NetworkPlace>& place, std::size_t depth) {
    return place && depth < place->groups.size() ? std::string_view(place->groups[depth]) : "";
}

/// How often a ring through all nodes leaves a group, for each depth, from the outermost one: how many neighbours, its
/// last and first node included, are in different groups.
using Crossings = std::vector<std::size_t>;

struct OrderByPlace {
    std::vector<std::size_t> order; ///< positions in the places
    Crossings before;               ///< in the order given
    Crossings after;                ///< in `order`: the least of all orders

    /// False if the order given stays.
    [[nodiscard]] bool changes() const { return !std::ranges::is_sorted(order); }
};

/// Puts nodes of a group beside each other, at each depth. Groups come in the order of their first node, and nodes of a
/// group stay in their order, so the first node stays the first. Nodes without a place are a group of their own. Where
/// groups consist of segments of one size (sbatch --segment), each part of that size is inside a group, too.
OrderByPlace order_by_place(std::span<const std::optional<NetworkPlace>> places);

/// Returns what a ring gains, at the outermost depth where it leaves groups less often: "a ring of nodes leaves its
/// switches or blocks 2 times, not 4". Where it gains nothing, says how the nodes are. Only if the order changes().
std::string gain_text(const OrderByPlace& ordered);

} // namespace rdma_nccl
