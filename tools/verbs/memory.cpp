// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/memory.h"

#ifdef HAVE_IBVERBS

#include "lib/base/format.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace rdma_nccl {

namespace {

constexpr int access_rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

tl::unexpected<Error> not_registered(std::size_t bytes, int code) {
    const char* const hint = code == ENOMEM  ? "; raise the limit of locked memory: `ulimit -l`, LimitMEMLOCK of slurmd"
                             : code == EPERM ? "; see the rights of the device and its cgroup"
                                             : "";
    return fail(format_text("{} KiB of memory cannot be registered: {}{}", bytes >> 10, std::strerror(code), hint),
                code);
}

ibv_mr* register_host(const VerbsPort& port, std::byte* pages, std::size_t bytes, VerbsMemory::Order order) {
    const auto& library = port.library;
    if (order == VerbsMemory::Order::Relaxed && library.reg_mr_iova2 != nullptr) {
        // The library removes optional rights that the device does not support.
        const auto address = reinterpret_cast<std::uintptr_t>(pages);
        return library.reg_mr_iova2(port.domain.get(), pages, bytes, address,
                                    access_rights | IBV_ACCESS_RELAXED_ORDERING);
    }
    return library.reg_mr(port.domain.get(), pages, bytes, access_rights);
}

Result<ibv_mr*> register_gpu(const VerbsPort& port, const GpuMemory& memory, std::size_t bytes) {
    const auto& library = port.library;
    const auto file = memory.dmabuf();
    std::string why = file ? "libibverbs is too old for it" : file.error().message;
    if (file && library.reg_dmabuf_mr != nullptr) {
        if (auto* const region = library.reg_dmabuf_mr(port.domain.get(), 0, bytes, memory.address(), file->get(),
                                                       access_rights | IBV_ACCESS_RELAXED_ORDERING)) {
            return region;
        }
        why = std::strerror(errno);
    }
    auto* const address = reinterpret_cast<void*>(memory.address()); // NOLINT(performance-no-int-to-ptr): of the GPU
    if (auto* const region = library.reg_mr(port.domain.get(), address, bytes, access_rights)) {
        return region;
    }
    const int code = errno;
    return fail(format_text("the HCA cannot reach the GPU's memory, neither by DMA-BUF ({}) nor by nvidia_peermem "
                            "({}): load nvidia_peermem, or use the open kernel modules of NVIDIA's driver",
                            why, std::strerror(code)),
                code);
}

} // namespace

Result<HostPages> HostPages::map(std::size_t bytes) {
    void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        const int code = errno;
        return fail(format_text("{} KiB of memory: {}", bytes >> 10, std::strerror(code)), code);
    }
    HostPages mapped;
    mapped.pages_ = {static_cast<std::byte*>(pages), Unmap{bytes}};
    std::memset(pages, 0, bytes);
    return mapped;
}

void HostPages::Unmap::operator()(std::byte* pages) const {
    ::munmap(pages, bytes);
}

Result<VerbsMemory> VerbsMemory::of_host(const VerbsPort& port, std::size_t bytes, Order order) {
    auto pages = HostPages::map(bytes);
    if (!pages) {
        return tl::unexpected(pages.error());
    }
    VerbsMemory memory;
    memory.pages_ = std::move(*pages);
    memory.address_ = reinterpret_cast<std::uintptr_t>(memory.host());
    memory.region_ = {register_host(port, memory.host(), bytes, order), {port.library.dereg_mr}};
    if (!memory.region_) {
        return not_registered(bytes, errno);
    }
    return memory;
}

Result<VerbsMemory> VerbsMemory::of_gpu(const VerbsPort& port, std::size_t bytes, unsigned gpu) {
    auto allocated = GpuMemory::allocate(gpu, bytes);
    if (!allocated) {
        return tl::unexpected(allocated.error());
    }
    VerbsMemory memory;
    memory.gpu_ = std::move(*allocated);
    memory.address_ = memory.gpu_->address();
    const auto region = register_gpu(port, *memory.gpu_, bytes);
    if (!region) {
        return tl::unexpected(region.error());
    }
    memory.region_ = {*region, {port.library.dereg_mr}};
    return memory;
}

Result<void> VerbsMemory::copy_in(std::size_t offset, std::span<const std::byte> bytes) {
    if (gpu_) {
        return gpu_->copy_in(offset, bytes);
    }
    std::ranges::copy(bytes, host() + offset);
    return {};
}

Result<void> VerbsMemory::copy_out(std::size_t offset, std::span<std::byte> bytes) const {
    if (gpu_) {
        return gpu_->copy_out(offset, bytes);
    }
    std::copy_n(host() + offset, bytes.size(), bytes.data());
    return {};
}

} // namespace rdma_nccl

#endif
