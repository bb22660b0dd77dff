// SPDX-License-Identifier: Apache-2.0
// Where the ranks that `rdma-nccl run` starts on this node belong.
#pragma once

#include "lib/environment.h"
#include "lib/node_placement.h"
#include "lib/root.h"
#include "lib/settings.h"

#include <optional>
#include <string>

namespace rdma_nccl {

/// A place for each rank, within the CPUs of this process. Reads only what it needs for that: the topology, GPUs, and
/// of HCAs those that the plugin named in UCX_NET_DEVICES. nullopt where nothing is to be decided: one rank, or
/// bind=off. `problem`: why nothing can be bound, where that is so.
std::optional<NodePlacement> place_run(const Root& root, const Environment& environment, BindChoice bind,
                                       unsigned ranks, std::string& problem);

} // namespace rdma_nccl
