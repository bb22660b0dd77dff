// SPDX-License-Identifier: Apache-2.0
// Memory that is written to: of an NVIDIA GPU, and of the host or a GPU registered at an HCA; and the pattern that
// shows that writes arrived.
#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "tools/verbs/port.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rdma_nccl {

/// Fills memory with bytes that are unlikely to be there by chance: all words of eight bytes differ, also between
/// seeds. `offset`: offset of the first byte in the whole pattern, a multiple of 8.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::size_t offset);

/// Returns true if the bytes contain the pattern.
bool has_pattern(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t offset);

/// Memory of a GPU, through the CUDA driver's library, which is loaded when needed.
class GpuMemory {
public:
    /// `gpu`: CUDA's number of the GPU. Fails with "no GPU: ..." if there is no driver or no such GPU.
    static Result<std::unique_ptr<GpuMemory>> allocate(unsigned gpu, std::size_t bytes);
    GpuMemory(const GpuMemory&) = delete;
    GpuMemory& operator=(const GpuMemory&) = delete;
    ~GpuMemory();

    [[nodiscard]] std::uint64_t address() const { return address_; }
    /// Returns a descriptor for ibv_reg_dmabuf_mr(). Fails if driver or GPU do not support it; then nvidia_peermem is
    /// needed.
    [[nodiscard]] Result<UniqueFd> dmabuf() const;
    Result<void> copy_in(std::size_t offset, std::span<const std::byte> bytes);
    [[nodiscard]] Result<void> copy_out(std::size_t offset, std::span<std::byte> bytes) const;

private:
    struct Driver;
    explicit GpuMemory(std::unique_ptr<const Driver> driver);
    Result<void> make(unsigned gpu, std::size_t bytes);

    std::unique_ptr<const Driver> driver_;
    int device_ = 0;
    bool retained_ = false;
    unsigned long long address_ = 0;
    std::size_t bytes_ = 0;
};

#ifdef HAVE_IBVERBS

class VerbsMemory {
public:
    enum class Order {
        Strict,
        Relaxed, ///< PCIe may reorder writes: faster on some hosts, but not for polled memory
    };
    /// Whole pages, zeroed. Clearing them is the first touch, which places them on the NUMA node of the calling thread.
    static Result<VerbsMemory> of_host(const VerbsPort& port, std::size_t bytes, Order order);
    static Result<VerbsMemory> of_gpu(const VerbsPort& port, std::size_t bytes, unsigned gpu);

    [[nodiscard]] std::uint64_t address() const { return address_; }
    [[nodiscard]] std::uint32_t local_key() const { return region_->lkey; }
    [[nodiscard]] std::uint32_t remote_key() const { return region_->rkey; }
    /// Returns nullptr for GPU memory.
    [[nodiscard]] std::byte* host() const { return pages_.get(); }

    /// Fills `size` bytes, from `offset` on, with the pattern.
    Result<void> fill(std::size_t offset, std::size_t size, std::uint64_t seed);
    /// Returns whether these bytes contain the pattern.
    [[nodiscard]] Result<bool> is_filled(std::size_t offset, std::size_t size, std::uint64_t seed) const;

private:
    struct Unmap {
        std::size_t bytes;
        void operator()(std::byte* pages) const;
    };
    std::uint64_t address_ = 0;
    std::unique_ptr<std::byte, Unmap> pages_{nullptr, Unmap{0}};
    std::unique_ptr<GpuMemory> gpu_;
    VerbsRegion region_; ///< last, so that it is destroyed first
};

#endif

} // namespace rdma_nccl
