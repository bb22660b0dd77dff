// SPDX-License-Identifier: Apache-2.0
// The links between the GPUs of the running machine: AMD's from KFD's files, NVIDIA's from NVML. And the NVLink fabrics
// that NVIDIA's are part of.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/net/message.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/topology.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rdma_nccl {

/// Returns the links for Topology::gpu_links: XGMI as KFD below the root tells; NVLink as this machine's NVML tells, so
/// only if the root is "/". Empty if nothing tells: there is no NVML, or it did not answer within `limit`.
std::vector<GpuLink> read_gpu_links(const SysRoot& root, std::span<const Gpu> gpus, std::chrono::milliseconds limit);

/// A GPU behind NVSwitches, which has to join their fabric: of its node (HGX), or of several nodes (NVL72).
struct GpuFabric {
    enum class State { None, NotStarted, Joining, Joined }; ///< NVML_GPU_FABRIC_STATE_*
    std::string gpu;                                        ///< PCI address
    std::string domain;                                     ///< hexadecimal cluster UUID; empty: ends at this node
    unsigned clique = 0;                                    ///< GPUs of a domain that reach each other
    State state = State::None;
    unsigned error = 0;  ///< nvmlReturn_t of joining; counts when Joined
    unsigned health = 0; ///< NVML_GPU_FABRIC_HEALTH_MASK_*
};

/// For a driver without persistence mode, which has to start the GPUs.
inline constexpr std::chrono::seconds nvml_limit(5);

/// Returns those of this machine's NVIDIA GPUs that have a fabric, as NVML tells; empty if it does not, as before
/// driver 550. Returns nullopt if there is no answer within `limit`.
std::optional<std::vector<GpuFabric>> read_gpu_fabrics(std::span<const Gpu> gpus, std::chrono::milliseconds limit);

/// Returns "clique 7 of NVLink domain 5a01"; empty unless the GPU has joined a fabric of several nodes.
std::string clique_of(const GpuFabric& gpu);

/// True if /dev has a channel by which GPUs of this node may map the memory of other nodes' GPUs: of the job (Slurm's
/// switch/nvidia_imex) or of the node (NVreg_CreateImexChannel0).
bool has_imex_channel(const SysRoot& root);

/// Returns false if NVLink carries nothing between this machine's GPUs and those of other nodes: there is no IMEX
/// channel, or NVML says that none is in a clique. Asks NVML only if there is a channel; true without an answer.
bool may_cross_nodes(const SysRoot& root, std::span<const Gpu> gpus, std::chrono::milliseconds limit);

/// For messages of child processes.
void fields(auto& f, Is<GpuLink> auto& link) {
    f("gpu", link.gpu);
    f("peer", link.peer);
    f("kind", link.kind, GpuLink::Kind::Xgmi);
    f("count", link.count);
}
void fields(auto& f, Is<GpuFabric> auto& gpu) {
    f("gpu", gpu.gpu);
    f("domain", gpu.domain);
    f("clique", gpu.clique);
    f("state", gpu.state, GpuFabric::State::Joined);
    f("error", gpu.error);
    f("health", gpu.health);
}

} // namespace rdma_nccl
