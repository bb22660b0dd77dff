// SPDX-License-Identifier: Apache-2.0
// Finds places for the ranks that `rdma-nccl run` starts on this node.
#pragma once

#include "lib/plan/node_placement.h"
#include "lib/settings/settings.h"
#include "lib/sys/environment.h"
#include "lib/sys/sysroot.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rdma_nccl::run {

/// Returns a place for each rank within the CPUs of this process. Reads only what it needs: the topology, the GPUs, and
/// the HCAs that the plugin named in UCX_NET_DEVICES. Returns nullopt if there is nothing to decide (one rank, or
/// bind=off), or if nothing can be bound; then `problem` is the reason.
std::optional<NodePlacement> place_run(const SysRoot& root, const Environment& environment, BindChoice bind,
                                       unsigned ranks, std::string& problem);

/// The devices of a rank, for users; values are empty if unknown.
struct RankDeviceNames {
    std::string gpu;               ///< as in CUDA_VISIBLE_DEVICES
    std::string gpu_pci;           ///< "0000:53:00.0"
    std::string gpu_uuid;          ///< "GPU-..."
    std::string gpu_file;          ///< "/dev/nvidia3"; empty when unknown
    std::vector<std::string> hcas; ///< "mlx5_1:1", nearest first: those that the plugin named, or would use
};

/// Returns the devices by local rank. Reads the whole fabric if the plugin has not named HCAs.
std::vector<RankDeviceNames> find_devices(const SysRoot& root, const Environment& environment, unsigned ranks);

/// The devices of this node's ranks, which are searched for only when they are needed.
class RankDevices {
public:
    /// `find` returns them by local rank; an empty function: none are known.
    explicit RankDevices(std::function<std::vector<RankDeviceNames>()> find) : find_(std::move(find)) {}

    RankDeviceNames of(unsigned local_rank) {
        return local_rank < all().size() ? all()[local_rank] : RankDeviceNames();
    }
    std::vector<std::string> ports() {
        return names([](const auto& one) { return one.hcas; });
    }
    /// Returns UUIDs, or PCI addresses.
    std::vector<std::string> gpus() {
        return names([](const auto& one) { return std::vector{one.gpu_uuid.empty() ? one.gpu_pci : one.gpu_uuid}; });
    }
    std::vector<std::string> gpu_files() {
        return names([](const auto& one) { return std::vector{one.gpu_file}; });
    }

private:
    const std::vector<RankDeviceNames>& all();
    /// Returns names without empty ones and duplicates.
    std::vector<std::string> names(const std::function<std::vector<std::string>(const RankDeviceNames& one)>& names_of);

    std::function<std::vector<RankDeviceNames>()> find_;
    std::optional<std::vector<RankDeviceNames>> devices_;
};

} // namespace rdma_nccl::run
