// SPDX-License-Identifier: Apache-2.0
// CUDA's driver library, loaded on demand, and one GPU. The library comes with the driver and has a stable interface,
// so no run-time library of a certain CUDA release is needed. NCCL's own one uses the current context.
#pragma once

#include "lib/base/dynamic_symbols.h"
#include "lib/base/result.h"

#include <cstddef>
#include <cuda.h>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdma_nccl::bench {

// <cuda.h> renames functions when they change, so look up the name that it uses.
#define RN_TEXT_OF(function) #function
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define RN_CUDA(name, function) decltype(&::function) name = symbols.get(RN_TEXT_OF(function))

struct CudaLibrary {
    Symbols symbols;
    RN_CUDA(init, cuInit);
    RN_CUDA(error_string, cuGetErrorString);
    RN_CUDA(device_count, cuDeviceGetCount);
    RN_CUDA(device, cuDeviceGet);
    RN_CUDA(device_name, cuDeviceGetName);
    RN_CUDA(pci_address, cuDeviceGetPCIBusId);
    RN_CUDA(retain_context, cuDevicePrimaryCtxRetain);
    RN_CUDA(release_context, cuDevicePrimaryCtxRelease);
    RN_CUDA(set_context, cuCtxSetCurrent);
    RN_CUDA(allocate, cuMemAlloc);
    RN_CUDA(free, cuMemFree);
    RN_CUDA(to_device, cuMemcpyHtoDAsync);
    RN_CUDA(to_host, cuMemcpyDtoH);
    RN_CUDA(fill, cuMemsetD8Async);
    RN_CUDA(create_stream, cuStreamCreate);
    RN_CUDA(query_stream, cuStreamQuery);
    RN_CUDA(destroy_stream, cuStreamDestroy);

    /// Fails if there is no driver, or no GPU that this process can see.
    static Result<CudaLibrary> load();

    /// Fails with "WHAT: CUDA's message (error 2)".
    [[nodiscard]] Result<void> check(CUresult result, std::string_view what) const;
};

#undef RN_CUDA
#undef RN_TEXT_OF

/// A GPU that CUDA shows to this process.
struct CudaDeviceInfo {
    std::string name; ///< "NVIDIA H100 80GB HBM3"
    std::string pci;  ///< "0000:53:00.0"
};
Result<std::vector<CudaDeviceInfo>> list_devices(const CudaLibrary& cuda);

/// A stream, and the primary context that the whole process shares, made current. `cuda` must outlive it.
class CudaDevice {
public:
    static Result<CudaDevice> open(const CudaLibrary& cuda, unsigned index);

    [[nodiscard]] const CudaLibrary& cuda() const { return *cuda_; }
    [[nodiscard]] CUstream stream() const { return stream_.get(); }

private:
    struct ReleaseContext {
        const CudaLibrary* cuda;
        CUdevice device;
        void operator()(CUcontext /*context*/) const { (void)cuda->release_context(device); }
    };
    explicit CudaDevice(const CudaLibrary& cuda)
        : cuda_(&cuda), context_(nullptr, {&cuda, 0}), stream_(nullptr, cuda.destroy_stream) {}

    const CudaLibrary* cuda_;
    std::unique_ptr<CUctx_st, ReleaseContext> context_;
    std::unique_ptr<CUstream_st, decltype(CudaLibrary::destroy_stream)> stream_;
};

/// Memory of a GPU. `gpu` must outlive it.
class CudaMemory {
public:
    static Result<CudaMemory> allocate(const CudaDevice& gpu, std::size_t size);

    [[nodiscard]] std::byte* at(std::size_t offset) const { return memory_.get() + offset; }
    [[nodiscard]] std::size_t size() const { return size_; }

    // spoil() and write() use the GPU's stream, so they precede what is put into it later. The default stream of the
    // plain calls is not ordered with it (CU_STREAM_NON_BLOCKING).
    /// Fills the memory with a value that no operation produces.
    [[nodiscard]] Result<void> spoil() const;
    /// `bytes` may be reused after it returns: CUDA has copied pageable memory by then.
    [[nodiscard]] Result<void> write(std::size_t offset, std::span<const std::byte> bytes) const;
    /// The stream must have finished.
    [[nodiscard]] Result<void> read(std::size_t offset, std::span<std::byte> bytes) const;

private:
    /// NCCL takes GPU addresses as pointers.
    struct Free {
        const CudaLibrary* cuda;
        void operator()(std::byte* memory) const { (void)cuda->free(reinterpret_cast<CUdeviceptr>(memory)); } // NOLINT
    };
    CudaMemory(const CudaDevice& gpu, CUdeviceptr address, std::size_t size)
        : gpu_(&gpu), memory_(reinterpret_cast<std::byte*>(address), Free{&gpu.cuda()}), size_(size) {} // NOLINT
    [[nodiscard]] CUdeviceptr address(std::size_t offset) const {
        return reinterpret_cast<CUdeviceptr>(at(offset)); // NOLINT
    }

    const CudaDevice* gpu_;
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t size_;
};

} // namespace rdma_nccl::bench
