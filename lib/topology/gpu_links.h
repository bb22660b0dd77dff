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
#include <string_view>
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

struct GpuFabrics {
    static constexpr std::string_view message_name = "gpu-fabrics";
    bool has_answered = false; ///< NVML knows of one of the GPUs whether it has a fabric
    std::vector<GpuFabric> gpus;
};

/// Asks this machine's NVML about its GPUs' fabrics, in a child beside this process.
ChildValue<GpuFabrics> ask_gpu_fabrics(std::span<const Gpu> gpus);

/// Returns those of this machine's NVIDIA GPUs that have a fabric, as NVML tells; empty if it does not, as before
/// driver 550. Returns nullopt if there is no answer within `limit`.
std::optional<std::vector<GpuFabric>> read_gpu_fabrics(std::span<const Gpu> gpus, std::chrono::milliseconds limit);

/// Returns "clique 7 of NVLink domain 5a01"; empty unless the GPU has joined a fabric of several nodes.
std::string clique_of(const GpuFabric& gpu);

/// Returns the cliques that the GPUs of a node are in, each once; usually one. Empty if they are in none.
std::string cliques_of(std::span<const GpuFabric> gpus);

/// True if /dev has a channel by which GPUs of this node may map the memory of other nodes' GPUs: of the job (Slurm's
/// switch/nvidia_imex) or of the node (NVreg_CreateImexChannel0).
bool has_imex_channel(const SysRoot& root);

/// For a node with an IMEX channel: returns false if NVML says that none of its GPUs is in a clique, so that NVLink
/// carries nothing to other nodes. True without an answer.
bool may_cross_nodes(const std::optional<GpuFabrics>& answer);

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
void fields(auto& f, Is<GpuFabrics> auto& m) {
    constexpr std::size_t most_gpus = 1024;
    f("has_answered", m.has_answered);
    f("gpus", m.gpus, most_gpus);
}

} // namespace rdma_nccl
