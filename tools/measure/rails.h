// SPDX-License-Identifier: Apache-2.0
// A node's part in `rdma-nccl pairs`: the ports of its plan, each with the plan's GID.
#pragma once

#include "lib/net/release.h"
#include "tools/node/node_plan.h"
#include "tools/verbs/rail.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

inline constexpr std::size_t longest_cpu_list = 8192; ///< of the kernel's list, with every other CPU of a large machine

void fields(auto& f, Is<PairRail> auto& rail) {
    f("hca", rail.hca);
    f("port", rail.port, 255U);
    f("ethernet", rail.ethernet);
    f("gid_index", rail.gid_index, 255U);
    f("gid", rail.gid);
    f("rate_gbps", rail.rate_gbps);
    f("netdev", rail.netdev);
    f("netdev_mtu", rail.netdev_mtu);
    f("network", rail.network);
    f("address", rail.address);
    f("numa_node", rail.numa_node);
    f("local_cpus", rail.local_cpus, longest_cpu_list);
    f("software", rail.software);
}

namespace measure {

struct Node {
    std::string name;
    std::vector<PairRail> rails;
    std::string problem; ///< why it has no rails, or takes no part
    std::string host{};  ///< its real name, if `name` was changed to tell it from others of that name; else empty
    /// Within which NVLink reaches other nodes: "clique 7 of NVLink domain 5a01"; absent: none is known.
    std::optional<std::string> clique{};
    Release release = own_release();

    /// Returns the name for Slurm.
    [[nodiscard]] const std::string& host_name() const { return host.empty() ? name : host; }

    friend bool operator==(const Node&, const Node&) = default;
};

/// Returns the node's used ports, in the order of the HCAs' PCI addresses (NCCL 2.29.7). If there are none, `problem`
/// says why. `name`: of the node.
Node inspect_rails(const Fabric& fabric, const FabricChoice& choice, std::string name);

/// Returns for each rail the nearest GPU, by CUDA's number: a GPU for which the rail is the nearest port; if there is
/// none, GPUs are assigned in turn. Absent if the node has no GPU.
std::vector<std::optional<unsigned>> rail_gpus(const NodePlacement& placed, const Node& node);

void fields(auto& f, Is<Node> auto& node) {
    f("name", node.name);
    f("rails", node.rails);
    f("problem", node.problem);
    f("clique", node.clique);
    f("rdma_nccl", node.release);
    f.check(is_understood(node.release));
}

/// Returns why what a node says of itself cannot be read.
std::string why_unreadable(const Json& node);

/// Reads what a node says of itself. Fails on anything that written() does not write.
template<typename T = Node>
Result<T> parse_node(const Json& json) {
    auto node = read_exactly<T>(json);
    return node ? Result<T>(std::move(*node)) : fail(why_unreadable(json));
}

/// Returns "mlx5_1:1".
inline std::string rail_name(const PairRail& rail) {
    return port_name(rail.hca, rail.port);
}

} // namespace measure

} // namespace rdma_nccl
