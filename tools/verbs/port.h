// SPDX-License-Identifier: Apache-2.0
// An opened HCA port, and memory that is registered at it, of the host or of an NVIDIA GPU. libibverbs is loaded when
// needed, because the command must also start without it. Only files that need its types include this one. Errors do
// not name the port: the caller knows it, and adds it with the node's name.
#pragma once

#include "config.h"
#include "lib/base/dynamic_symbols.h"
#include "lib/base/result.h"
#include "lib/net/ip.h"
#include "tools/verbs/rail.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#ifdef HAVE_IBVERBS
#include <infiniband/verbs.h>
#endif

namespace rdma_nccl {

/// Fills memory with bytes that are unlikely to be there by chance: all words of eight bytes differ, also between
/// seeds. `offset`: offset of the first byte in the whole pattern, a multiple of 8.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed, std::size_t offset);

/// Returns true if the bytes contain the pattern.
bool has_pattern(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t offset);

#ifdef HAVE_IBVERBS

/// The functions of libibverbs that are used, with the signatures of the library's current interface. The macros of
/// verbs.h with the same names do not apply. Posting and polling use the device's context (inline functions of
/// verbs.h); all other calls use this struct.
struct VerbsLibrary {
    Symbols symbols;
    decltype(&::ibv_get_device_list) get_device_list = symbols.get("ibv_get_device_list");
    decltype(&::ibv_free_device_list) free_device_list = symbols.get("ibv_free_device_list");
    decltype(&::ibv_get_device_name) get_device_name = symbols.get("ibv_get_device_name");
    decltype(&::ibv_open_device) open_device = symbols.get("ibv_open_device");
    decltype(&::ibv_close_device) close_device = symbols.get("ibv_close_device");
    decltype(&::ibv_query_device) query_device = symbols.get("ibv_query_device");
    /// Fills the struct only up to `link_layer`.
    decltype(&::ibv_query_port) query_port = symbols.get("ibv_query_port");
    decltype(&::ibv_query_gid) query_gid = symbols.get("ibv_query_gid");
    decltype(&::ibv_alloc_pd) alloc_pd = symbols.get("ibv_alloc_pd");
    decltype(&::ibv_dealloc_pd) dealloc_pd = symbols.get("ibv_dealloc_pd");
    decltype(&::ibv_reg_mr) reg_mr = symbols.get("ibv_reg_mr");
    decltype(&::ibv_dereg_mr) dereg_mr = symbols.get("ibv_dereg_mr");
    decltype(&::ibv_create_cq) create_cq = symbols.get("ibv_create_cq");
    decltype(&::ibv_destroy_cq) destroy_cq = symbols.get("ibv_destroy_cq");
    decltype(&::ibv_create_qp) create_qp = symbols.get("ibv_create_qp");
    decltype(&::ibv_modify_qp) modify_qp = symbols.get("ibv_modify_qp");
    decltype(&::ibv_destroy_qp) destroy_qp = symbols.get("ibv_destroy_qp");
    // nullptr before rdma-core 28 and 34.
    decltype(&::ibv_reg_mr_iova2) reg_mr_iova2 = symbols.get_if_any("ibv_reg_mr_iova2");
    decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr = symbols.get_if_any("ibv_reg_dmabuf_mr");

    /// Fails if the library is not installed.
    static Result<VerbsLibrary> load();
};

/// Deleter that releases an object with a function of the library.
template<typename Function>
struct VerbsRelease {
    Function release = nullptr;
    template<typename T>
    void operator()(T* object) const {
        release(object);
    }
};
using VerbsContext = std::unique_ptr<ibv_context, VerbsRelease<decltype(VerbsLibrary::close_device)>>;
using VerbsDomain = std::unique_ptr<ibv_pd, VerbsRelease<decltype(VerbsLibrary::dealloc_pd)>>;
using VerbsRegion = std::unique_ptr<ibv_mr, VerbsRelease<decltype(VerbsLibrary::dereg_mr)>>;
using VerbsCompletions = std::unique_ptr<ibv_cq, VerbsRelease<decltype(VerbsLibrary::destroy_cq)>>;
using VerbsQueuePair = std::unique_ptr<ibv_qp, VerbsRelease<decltype(VerbsLibrary::destroy_qp)>>;

/// The members are released in reverse order of their creation.
struct VerbsPort {
    VerbsLibrary library;
    PairRail rail;
    VerbsContext context{};
    VerbsDomain domain{};
    ibv_port_attr attributes{};
    IpAddress gid{}; ///< of the rail's GID index

    /// Fails if the device, port or GID does not match the rail.
    static Result<VerbsPort> open(const PairRail& rail);
};

/// Keeps a value, or returns the error.
template<typename T>
Result<void> keep(std::optional<T>& place, Result<T> value) {
    return std::move(value).map([&place](T&& good) { place = std::move(good); });
}

/// Returns "n01 mlx5_0:1" with the kernel's host name, for callers that do not know the node's name.
std::string port_here(const PairRail& rail);

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
