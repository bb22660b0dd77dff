// SPDX-License-Identifier: Apache-2.0
// What a node takes part with in `rdma-nccl pairs`: the ports of its plan, each with the plan's GID.
#pragma once

#include "lib/json.h"
#include "lib/net/message.h"
#include "tools/node_plan.h"
#include "tools/pairs_values.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The node's used ports, in the order of its HCAs; without any, `problem` says why. `name`: of the node.
PairNode pair_node(const Fabric& fabric, const FabricChoice& choice, std::string name);

/// For each rail the GPU, by CUDA's number, that lies nearest to it: one whose nearest port it is, else they are dealt
/// out. Absent: the node has no GPU.
std::vector<std::optional<unsigned>> rail_gpus(const NodePlacement& placed, const PairNode& node);

inline constexpr std::size_t longest_cpu_list = 8192; ///< of the kernel: every other CPU of a large machine

Json node_json(const PairNode& node);
/// Fails on what no member writes.
Result<PairNode> read_pair_node(const Json& json);

void fields(auto& f, Is<PairRail> auto& rail) {
    f("hca", rail.hca);
    f("port", rail.port, 255U);
    f("ethernet", rail.ethernet);
    f("gid_index", rail.gid_index, 255U);
    f("gid", rail.gid);
    f("rate_gbps", rail.rate_gbps);
    f("netdev", rail.netdev);
    f("netdev_mtu", rail.netdev_mtu);
    f("address", rail.address);
    f("numa_node", rail.numa_node);
    f("local_cpus", rail.local_cpus, longest_cpu_list);
    f("software", rail.software);
}

void fields(auto& f, Is<PairNode> auto& node) {
    f("name", node.name);
    f("rails", node.rails);
    f("problem", node.problem);
}

/// "mlx5_1:1"
std::string rail_name(const PairRail& rail);

} // namespace rdma_nccl
