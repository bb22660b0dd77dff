// SPDX-License-Identifier: Apache-2.0
// Where the ranks that `rdma-nccl run` starts on this node belong.
#pragma once

#include "lib/environment.h"
#include "lib/node_placement.h"
#include "lib/root.h"
#include "lib/settings.h"

#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl {

/// A place for each rank, within the CPUs of this process. Reads only what it needs for that: the topology, GPUs, and
/// of HCAs those that the plugin named in UCX_NET_DEVICES. nullopt where nothing is to be decided: one rank, or
/// bind=off. `problem`: why nothing can be bound, where that is so.
std::optional<NodePlacement> place_run(const Root& root, const Environment& environment, BindChoice bind,
                                       unsigned ranks, std::string& problem);

/// What a rank drives and what is near to that, for people; empty where nobody knows.
struct NearDevices {
    std::string gpu;               ///< as CUDA_VISIBLE_DEVICES names it
    std::string gpu_pci;           ///< "0000:53:00.0"
    std::string gpu_uuid;          ///< "GPU-..."
    std::string gpu_file;          ///< "/dev/nvidia3"; empty when unknown
    std::vector<std::string> hcas; ///< "mlx5_1:1", nearest first: those that the plugin named, else those it would use
};

/// By local rank. Reads the whole fabric where the plugin has named no HCAs.
std::vector<NearDevices> find_devices(const Root& root, const Environment& environment, unsigned ranks);

} // namespace rdma_nccl
