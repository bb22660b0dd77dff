// SPDX-License-Identifier: Apache-2.0
// The links between the GPUs of the running machine: AMD's from KFD's files, NVIDIA's from NVML.
#pragma once

#include "lib/fabric/fabric.h"
#include "lib/net/message.h"
#include "lib/sys/sysroot.h"
#include "lib/topology/topology.h"

#include <chrono>
#include <span>
#include <vector>

namespace rdma_nccl {

/// Returns the links for Topology::gpu_links: XGMI as KFD below the root tells; NVLink as this machine's NVML tells, so
/// only if the root is "/". Empty if nothing tells: there is no NVML, or it did not answer within `limit`.
std::vector<GpuLink> read_gpu_links(const SysRoot& root, std::span<const Gpu> gpus, std::chrono::milliseconds limit);

/// For messages of child processes.
void fields(auto& f, Is<GpuLink> auto& link) {
    f("gpu", link.gpu);
    f("peer", link.peer);
    f("kind", link.kind, GpuLink::Kind::Xgmi);
    f("count", link.count);
}

} // namespace rdma_nccl
