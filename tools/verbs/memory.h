// SPDX-License-Identifier: Apache-2.0
// Memory that is written to, of the host or of an NVIDIA GPU, registered at an HCA; and the pattern that shows that
// writes arrived.
#pragma once

#include "tools/verbs/port.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma_nccl {

/// Fills memory with bytes that are unlikely to be there by chance: all words of eight bytes differ, also between
/// seeds. `offset`: offset of the first byte in the whole pattern, a multiple of 8.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::size_t offset);

/// Returns true if the bytes contain the pattern.
bool has_pattern(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t offset);

#ifdef HAVE_IBVERBS

class GpuMemory;

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
    std::shared_ptr<GpuMemory> gpu_;
    VerbsRegion region_; ///< last, so that it is destroyed first
};

#endif

} // namespace rdma_nccl
