// SPDX-License-Identifier: Apache-2.0
// Memory of an NVIDIA GPU, through the CUDA driver's library, which is loaded when needed. Its functions and types are
// declared here: they are a stable ABI, so that CUDA is not needed to build.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace rdma_nccl {

class GpuMemory {
public:
    /// `gpu`: CUDA's number of the GPU. Fails with "no GPU: ..." if there is no driver or no such GPU.
    static Result<std::unique_ptr<GpuMemory>> allocate(unsigned gpu, std::size_t bytes);
    GpuMemory(const GpuMemory&) = delete;
    GpuMemory& operator=(const GpuMemory&) = delete;
    virtual ~GpuMemory() = default;

    [[nodiscard]] virtual std::uint64_t address() const = 0;
    /// Returns a descriptor for ibv_reg_dmabuf_mr(). Fails if driver or GPU do not support it; then nvidia_peermem is
    /// needed.
    [[nodiscard]] virtual Result<UniqueFd> dmabuf() const = 0;
    virtual Result<void> copy_in(std::size_t offset, std::span<const std::byte> bytes) = 0;
    [[nodiscard]] virtual Result<void> copy_out(std::size_t offset, std::span<std::byte> bytes) const = 0;

protected:
    GpuMemory() = default;
};

} // namespace rdma_nccl
