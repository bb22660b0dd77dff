// SPDX-License-Identifier: Apache-2.0
// Registered memory of the host or of a GPU.
#pragma once

#include "tools/verbs/port.h"

#ifdef HAVE_IBVERBS

#include "tools/verbs/gpu_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace rdma_nccl {

/// Whole pages, zeroed. Clearing them is the first touch, which places them on the NUMA node of the calling thread.
class HostPages {
    struct Unmap {
        std::size_t bytes;
        void operator()(std::byte* pages) const;
    };

public:
    HostPages() : pages_(nullptr, Unmap{0}) {}
    static Result<HostPages> map(std::size_t bytes);
    [[nodiscard]] std::byte* data() const { return pages_.get(); }

private:
    std::unique_ptr<std::byte, Unmap> pages_;
};

class VerbsMemory {
public:
    enum class Order {
        Strict,
        Relaxed, ///< PCIe may reorder writes: faster on some hosts, but not for polled memory
    };
    static Result<VerbsMemory> of_host(const VerbsPort& port, std::size_t bytes, Order order);
    static Result<VerbsMemory> of_gpu(const VerbsPort& port, std::size_t bytes, unsigned gpu);

    [[nodiscard]] std::uint64_t address() const { return address_; }
    [[nodiscard]] std::uint32_t local_key() const { return region_->lkey; }
    [[nodiscard]] std::uint32_t remote_key() const { return region_->rkey; }
    /// Returns nullptr for GPU memory.
    [[nodiscard]] std::byte* host() const { return pages_.data(); }

    Result<void> copy_in(std::size_t offset, std::span<const std::byte> bytes);
    [[nodiscard]] Result<void> copy_out(std::size_t offset, std::span<std::byte> bytes) const;

private:
    std::uint64_t address_ = 0;
    HostPages pages_;
    std::unique_ptr<GpuMemory> gpu_;
    VerbsRegion region_; ///< last, so that it is destroyed first
};

} // namespace rdma_nccl

#endif
