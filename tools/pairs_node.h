// SPDX-License-Identifier: Apache-2.0
// What a node takes part with in `rdma-nccl pairs`: the ports of its plan, each with the plan's GID.
#pragma once

#include "tools/node_plan.h"
#include "tools/pairs_values.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// The node's used ports, in the order of its HCAs; without any, `problem` says why. `name`: of the node.
PairNode pair_node(const Fabric& fabric, const FabricChoice& choice, std::string name);

/// For each rail the GPU, by CUDA's number, that lies nearest to it: one whose nearest port it is, else they are dealt
/// out. Absent: the node has no GPU.
std::vector<std::optional<unsigned>> rail_gpus(const NodePlacement& placed, const PairNode& node);

nlohmann::json node_json(const PairNode& node);
/// Fails on what no member writes.
Result<PairNode> read_pair_node(const nlohmann::json& json);

/// "mlx5_1:1"
std::string rail_name(const PairRail& rail);

} // namespace rdma_nccl
